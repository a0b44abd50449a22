import CCulpritLinux
import CulpritStallRecord
import Synchronization

/// The only thread of the watchdog that accesses its directory. It can wait for the disk indefinitely.
///
/// Work waits in a bounded queue. If the queue is full, work is refused, and the caller counts it. The service, the
/// monitor and the recorder never wait for a disk.
final class DiskThread: Sendable {
  /// The memory limit for waiting work, in bytes: some thousand samples.
  private static let bytesMax = 8 << 20

  private struct Work {
    var bytes: Int
    var run: @Sendable () -> Void
  }

  private struct State {
    var waiting: [Work] = []
    /// The memory of waiting and running work.
    var bytes = 0
    var isStopping = false
  }

  private let hasOwnTable: Bool
  private let state = Mutex(State())
  private let wake = WakeUp()
  private let hasEnded = Promise<Bool>()
  /// The time at which the current work began, on the observer's clock; 0 if none is running.
  private let began = Atomic<UInt64>(0)

  /// Creates a disk thread. With `hasOwnTable`, it has its own descriptor table if the kernel supports that: its files
  /// then do not count against the service's limit, and the service cannot close them. Paths resolve as at the start,
  /// also after chroot(2). Tests pass `false`.
  init(hasOwnTable: Bool = true) { self.hasOwnTable = hasOwnTable }

  /// The time that the current work has been running; `nil` if none is running.
  var heldUp: Duration? {
    let began = began.load(ordering: .relaxed)
    guard began != 0 else { return nil }
    let now = clinux_clock_ns()
    return now > began ? Duration(wholeNanoseconds: now - began) : .zero
  }

  /// Starts the thread.
  ///
  /// - Throws: ``PosixThreadError`` if the thread cannot be started.
  func start() throws(PosixThreadError) {
    // Detached, because the thread might never end.
    try PosixThread(name: "culprit-disk") { [self] in
      if hasOwnTable {
        _ = clinux_descriptor_take_own_table()
        _ = clinux_keep_root()
      }
      run()
      hasEnded.fulfill(true)
    }
    .detach()
  }

  /// Queues `work` behind all earlier work.
  ///
  /// - Parameters:
  ///   - bytes: The approximate memory held until then.
  ///   - isVital: Whether the work is accepted even if the queue is full. For small and infrequent work.
  ///   - work: The work, called on the disk thread.
  /// - Returns: Whether the work was accepted.
  @discardableResult
  func put(bytes: Int = 256, isVital: Bool = false, _ work: @escaping @Sendable () -> Void) -> Bool {
    let isTaken = state.withLock { state in
      guard isVital || state.bytes + bytes <= Self.bytesMax else { return false }
      state.bytes += bytes
      state.waiting.append(Work(bytes: bytes, run: work))
      return true
    }
    if isTaken { wake.notify() }
    return isTaken
  }

  /// Queues `work` and waits for its result until `deadline`. Returns `nil` after the deadline.
  func result<Result: Sendable>(until deadline: UInt64, of work: @escaping @Sendable () -> Result) -> Result? {
    let promise = Promise<Result>()
    put(isVital: true) { promise.fulfill(work()) }
    return promise.wait(until: deadline)
  }

  /// Ends the thread after all queued work, and waits for that until `deadline`.
  ///
  /// - Returns: Whether the thread has ended.
  func stop(until deadline: UInt64) -> Bool {
    state.withLock { $0.isStopping = true }
    wake.notify()
    return hasEnded.wait(until: deadline) != nil
  }

  private func run() {
    while true {
      let seen = wake.seen
      let (batch, isStopping) = state.withLock { state in
        defer { state.waiting = [] }
        return (state.waiting, state.isStopping)
      }
      for work in batch {
        began.store(clinux_clock_ns(), ordering: .relaxed)
        work.run()
        state.withLock { $0.bytes -= work.bytes }
      }
      began.store(0, ordering: .relaxed)
      guard batch.isEmpty else { continue }
      if isStopping { return }
      wake.wait(after: seen, until: .max)
    }
  }
}

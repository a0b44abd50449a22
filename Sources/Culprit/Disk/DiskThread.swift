import CCulpritLinux
import CulpritStallRecord
import Synchronization

/// The only thread of the watchdog that accesses its directory.
///
/// A full queue refuses work, so no other thread waits for a disk.
final class DiskThread: Sendable {
  /// Limit of the queue: some thousand samples.
  private static let bytesMax = 8 << 20

  private struct Work {
    var bytes: Int
    var run: @Sendable () -> Void
  }

  private struct State {
    var waiting: [Work] = []
    var bytes = 0
    var isStopping = false
  }

  private let hasOwnTable: Bool
  private let state = Mutex(State())
  private let wake = WakeUp()
  private let hasEnded = Promise<Bool>()
  /// Start time of the running work; 0: none.
  private let began = Atomic<UInt64>(0)

  /// By default, the thread has its own descriptor table if the kernel supports this.
  ///
  /// The thread's files then do not count against the service's limit, and the service cannot close them. Paths resolve
  /// as at the start, even after chroot(2).
  init(hasOwnTable: Bool = true) { self.hasOwnTable = hasOwnTable }

  var heldUp: Duration? {
    let began = began.load(ordering: .relaxed)
    guard began != 0 else { return nil }
    let now = clinux_clock_ns()
    return now > began ? Duration(wholeNanoseconds: now - began) : .zero
  }

  func start() throws(WatchdogError) {
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

  /// Queues `work`, which holds about `bytes` of memory. Returns whether the queue accepts it.
  ///
  /// Vital work, which must be small and infrequent, is accepted even if the queue is full.
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

  func result<Result: Sendable>(until deadline: UInt64, of work: @escaping @Sendable () -> Result) -> Result? {
    let promise = Promise<Result>()
    put(isVital: true) { promise.fulfill(work()) }
    return promise.wait(until: deadline)
  }

  /// Ends the thread after all queued work. Returns whether it has ended by `deadline`.
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

import CCulpritLinux
import CulpritStallRecord
import Synchronization

/// The one thread of the watchdog that touches its directory: it may wait for the disk for as long as that takes.
///
/// What it is to do waits in a queue of bounded size. What finds no room there is refused, and who wanted it done
/// counts it: neither the service, nor the monitor, nor the recorder ever waits for a disk.
final class DiskThread: Sendable {
  /// How many bytes what waits may take: some thousand samples.
  private static let bytesMax = 8 << 20

  private struct Work {
    var bytes: Int
    var run: @Sendable () -> Void
  }

  private struct State {
    var waiting: [Work] = []
    /// Of what waits and of what is being done.
    var bytes = 0
    var isStopping = false
  }

  private let hasOwnTable: Bool
  private let state = Mutex(State())
  private let wake = WakeUp()
  private let hasEnded = Promise<Bool>()
  /// When the piece of work that is being done was begun, on the observer's clock; 0 between two.
  private let began = Atomic<UInt64>(0)

  /// A disk thread with its own descriptor table, if the kernel has such tables: its files then neither count against
  /// the service's limit nor can the service close them. Paths lead where they did at the start, also after chroot(2).
  /// Tests pass `false`.
  init(hasOwnTable: Bool = true) { self.hasOwnTable = hasOwnTable }

  /// For how long the disk has held up the piece of work that is being done; `nil` when there is none.
  var heldUp: Duration? {
    let began = began.load(ordering: .relaxed)
    guard began != 0 else { return nil }
    let now = clinux_clock_ns()
    return now > began ? Duration(wholeNanoseconds: now - began) : .zero
  }

  /// Starts the thread.
  ///
  /// - Throws: ``PosixThreadError`` when it cannot be started.
  func start() throws(PosixThreadError) {
    // Nobody waits for it by its handle: it may never end.
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

  /// Has `work` done after everything that was put in before.
  ///
  /// - Parameters:
  ///   - bytes: How much memory it holds until then, about.
  ///   - isVital: Whether it is taken although there is no room: little, and not much of it.
  ///   - work: What is done.
  /// - Returns: Whether it will be done.
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

  /// Has `work` done, and waits for its result until `deadline`; `nil` when there is none by then.
  func result<Result: Sendable>(until deadline: UInt64, of work: @escaping @Sendable () -> Result) -> Result? {
    let promise = Promise<Result>()
    put(isVital: true) { promise.fulfill(work()) }
    return promise.wait(until: deadline)
  }

  /// Makes the thread end when everything that was put in has been done, and waits for that until `deadline`.
  ///
  /// - Returns: Whether it has ended.
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

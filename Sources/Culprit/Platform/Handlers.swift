import CCulpritLinux
import CCulpritProcess
import Glibc
import Synchronization

/// The queue of calls to one handler. A handler that blocks delays others by ``Workers/patience``.
final class HandlerQueue: Sendable {
  /// Maximum number of waiting calls. Further calls are dropped and counted.
  private static let waitingMax = 64
  private static let waitingMaxOfVital = 128

  private struct State {
    var waiting: [Workers.Call] = []
    var dropped: UInt64 = 0
    var isBusy = false
    var thread: pthread_t?
  }

  private let workers: Workers
  private let state = Mutex(State())
  private let idle = WakeUp()
  private let mask = HandlerMask()
  /// The owning process: a child of fork(2) has none of the threads.
  private let process = clinux_process_stamp()

  init(_ workers: Workers) { self.workers = workers }

  var dropped: UInt64 { state.withLock { $0.dropped } }

  /// Returns whether a worker thread exists.
  @discardableResult
  func put(isVital: Bool = false, _ call: @escaping Workers.Call) -> Bool {
    let isRunning = workers.start()
    let most = isVital ? Self.waitingMaxOfVital : Self.waitingMax
    let isFirst = state.withLock { state in
      guard isRunning, state.waiting.count < most else {
        state.dropped += 1
        return false
      }
      state.waiting.append(call)
      defer { state.isBusy = true }
      return !state.isBusy
    }
    if isFirst { workers.put { [self] in makeCalls() } }
    return isRunning
  }

  /// Makes the first call. Further calls are scheduled after those of other queues.
  private func makeCalls() {
    // References held by the call are released before the queue counts as idle.
    makeCall()
    let isMore = state.withLock { state in
      state.thread = nil
      state.isBusy = !state.waiting.isEmpty
      return state.isBusy
    }
    if isMore { workers.put { [self] in makeCalls() } } else { idle.notify() }
  }

  private func makeCall() {
    let call = state.withLock { state in
      state.thread = pthread_self()
      return state.waiting.removeFirst()
    }
    mask.run(call)
  }

  /// Waits until `deadline` for all calls. Does not wait in a child of the process, or for a handler that runs on the
  /// calling thread or on the thread that has called exit(3). Returns `false` at `deadline`.
  @discardableResult
  func join(until deadline: UInt64) -> Bool {
    guard clinux_process_is(process) else { return true }
    while true {
      let seen = idle.seen
      let (isBusy, thread) = state.withLock { ($0.isBusy, $0.thread) }
      guard isBusy else { return true }
      if let thread, pthread_equal(thread, pthread_self()) != 0 || cprocess_ending_is_exiting_thread(thread) {
        return true
      }
      let now = clinux_clock_ns()
      guard now < deadline else { return false }
      // The reporter's thread, the usual supervisor, might have ended.
      workers.supervise(isSupervisor: false)
      idle.wait(after: seen, until: min(deadline, now &+ Workers.patience))
    }
  }
}

final class Handlers<Subject: Sendable>: Sendable {
  typealias Handler = @Sendable (Subject) -> Void

  private struct State {
    var current: [(handler: Handler, queue: HandlerQueue)] = []
    var former: [HandlerQueue] = []
    /// Number of calls dropped by removed handlers.
    var droppedBefore: UInt64 = 0
  }

  private let workers: Workers
  private let state = Mutex(State())

  init(_ workers: Workers) { self.workers = workers }

  var isEmpty: Bool { state.withLock { $0.current.isEmpty } }

  var dropped: UInt64 {
    state.withLock { state in
      (state.current.map(\.queue) + state.former).reduce(state.droppedBefore) { $0 + $1.dropped }
    }
  }

  @discardableResult
  func add(_ handler: @escaping Handler) -> HandlerQueue {
    let queue = HandlerQueue(workers)
    workers.start()
    state.withLock { $0.current.append((handler, queue)) }
    return queue
  }

  /// Queued calls are still made.
  func remove(_ queue: HandlerQueue) {
    // Handlers are released outside the lock: an object held only by a handler might call back here in its `deinit`.
    let removed = state.withLock { state -> Handler? in
      guard let place = state.current.firstIndex(where: { $0.queue === queue }) else { return nil }
      state.droppedBefore += queue.dropped
      return state.current.remove(at: place).handler
    }
    withExtendedLifetime(removed) {}
  }

  /// Queues a call of every handler, each after `begin`. The last handler to return calls `completion`. If a call is
  /// dropped, `completion` is not called. Returns whether a handler can be called.
  @discardableResult
  func call(
    _ subject: Subject,
    isVital: Bool = false,
    after begin: @escaping @Sendable () -> Void = {},
    then completion: @escaping @Sendable () -> Void = {}
  ) -> Bool {
    let handlers = state.withLock { $0.current }
    let left = Counter(handlers.count)
    return handlers.map { handler, queue in
      queue.put(isVital: isVital) {
        begin()
        handler(subject)
        if left.isLast() { completion() }
      }
    }
    .contains(true)
  }

  private final class Counter: Sendable {
    private let left: Atomic<Int>
    init(_ count: Int) { left = Atomic(count) }
    func isLast() -> Bool { left.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 }
  }

  /// Removes the handlers, to break reference cycles, and waits until `deadline` for their calls. Returns whether all
  /// calls were made.
  @discardableResult
  func finish(until deadline: UInt64) -> Bool {
    // Handlers are released outside the lock, as in ``remove(_:)``.
    let ended = state.withLock { state in
      defer { state.current = [] }
      state.former += state.current.map(\.queue)
      return state.current
    }
    return ended.map { $0.queue.join(until: deadline) }.allSatisfy { $0 }
  }
}

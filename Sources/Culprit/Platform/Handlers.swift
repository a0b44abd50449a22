import CCulpritLinux
import CCulpritProcess
import Glibc
import Synchronization

/// The calls of one of the application's handlers, which are made one after the other by the ``Workers``.
///
/// Each handler has its queue. A handler that blocks delays other handlers by ``Workers/patience``, and never the watchdog.
final class HandlerQueue: Sendable {
  /// The limit of waiting calls; further calls are dropped and counted.
  private static let waitingMax = 64
  /// The limit of waiting calls where the last one is vital.
  private static let waitingMaxOfVital = 128

  private struct State {
    var waiting: [Workers.Call] = []
    var dropped: UInt64 = 0
    /// Whether a call is made or waits for a thread.
    var isBusy = false
    /// The thread that makes a call.
    var thread: pthread_t?
  }

  private let workers: Workers
  private let state = Mutex(State())
  /// Notified when no call is left.
  private let idle = WakeUp()
  /// The signal mask of the thread that installed the handler.
  private let mask = HandlerMask()
  /// A child of fork(2) has none of the threads.
  private let process = clinux_process_stamp()

  init(_ workers: Workers) { self.workers = workers }

  /// The number of calls that were not made, because the handler could not keep up.
  var dropped: UInt64 { state.withLock { $0.dropped } }

  /// Makes `call` after those that were put in before.
  ///
  /// - Parameters:
  ///   - isVital: Whether it is accepted while others are dropped.
  ///   - call: Calls the handler.
  /// - Returns: Whether there is a thread; without one nothing is ever called.
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

  /// Makes the first call, and has the workers make the others after those of other queues.
  private func makeCalls() {
    // Whatever the call refers to is released before the queue counts as idle.
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

  /// Waits until all calls have been made, until `deadline` at most, on the observer's clock. Does not wait for a handler
  /// that is called by the calling thread or by the one that has called exit(3), nor in a child of the process.
  ///
  /// - Returns: Whether there is nothing more to wait for.
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
      // The reporter's thread, which supervises otherwise, may have ended.
      workers.supervise(isSupervisor: false)
      idle.wait(after: seen, until: min(deadline, now &+ Workers.patience))
    }
  }
}

/// The handlers of one kind, each with its queue.
final class Handlers<Subject: Sendable>: Sendable {
  typealias Handler = @Sendable (Subject) -> Void

  private struct State {
    var current: [(handler: Handler, queue: HandlerQueue)] = []
    var former: [HandlerQueue] = []
    /// Calls that removed handlers have missed.
    var droppedBefore: UInt64 = 0
  }

  private let workers: Workers
  private let state = Mutex(State())

  /// Handlers that are called by `workers`.
  init(_ workers: Workers) { self.workers = workers }

  /// Whether there is none.
  var isEmpty: Bool { state.withLock { $0.current.isEmpty } }

  /// The number of calls that were not made, because handlers could not keep up.
  var dropped: UInt64 {
    state.withLock { state in
      (state.current.map(\.queue) + state.former).reduce(state.droppedBefore) { $0 + $1.dropped }
    }
  }

  /// Calls `handler` from now on. Returns its queue.
  @discardableResult
  func add(_ handler: @escaping Handler) -> HandlerQueue {
    let queue = HandlerQueue(workers)
    workers.start()
    state.withLock { $0.current.append((handler, queue)) }
    return queue
  }

  /// Puts no more calls into `queue`. Waiting calls are made.
  func remove(_ queue: HandlerQueue) {
    // Let go of outside of the lock, as by `finish(until:)`.
    let removed = state.withLock { state -> Handler? in
      guard let place = state.current.firstIndex(where: { $0.queue === queue }) else { return nil }
      state.droppedBefore += queue.dropped
      return state.current.remove(at: place).handler
    }
    withExtendedLifetime(removed) {}
  }

  /// Calls every handler with `subject`, soon.
  ///
  /// - Parameters:
  ///   - subject: The argument of the handlers.
  ///   - isVital: Whether it comes while others have no room any more.
  ///   - begin: Called before each handler, on the same thread.
  ///   - completion: Called when every handler has returned; never if one is not called.
  /// - Returns: Whether there is any that can be called: where a thread cannot be made it cannot.
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
    private let left: Mutex<Int>
    init(_ count: Int) { left = Mutex(count) }
    func isLast() -> Bool {
      left.withLock { left in
        left -= 1
        return left == 0
      }
    }
  }

  /// Waits until every handler has been called for everything, until `deadline` at most, and forgets them: a handler
  /// may refer to the watchdog that refers to it. Returns whether every one has been.
  @discardableResult
  func finish(until deadline: UInt64) -> Bool {
    // Let go of outside of the lock: what only a handler holds may ask for it when it goes.
    let ended = state.withLock { state in
      defer { state.current = [] }
      state.former += state.current.map(\.queue)
      return state.current
    }
    return ended.map { $0.queue.join(until: deadline) }.allSatisfy { $0 }
  }
}

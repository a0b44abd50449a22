import CCulpritLinux
import Glibc
import Synchronization

/// A thread that calls one of the application's handlers, once for each thing it is told, in order.
///
/// Every handler has one of its own: a handler that blocks holds up neither the watchdog nor other handlers.
final class HandlerThread: Sendable {
  /// The most that waits for a handler; what comes then is dropped and counted.
  private static let waitingMax = 64
  /// The most that waits where the last of it is vital.
  private static let waitingMaxOfVital = 128

  /// The name of the threads that run handlers.
  static let name = "culprit-handler"

  private struct State {
    var waiting: [@Sendable () -> Void] = []
    var dropped: UInt64 = 0
    var isStopping = false
  }

  private let state = Mutex(State())
  private let wake = WakeUp()
  private let thread = Mutex<PosixThread?>(nil)
  /// That of the thread which installed the handler.
  private let mask = HandlerMask()

  /// What the handler was not told of, because it could not keep up.
  var dropped: UInt64 { state.withLock { $0.dropped } }

  /// Starts the thread, unless it has been. Returns whether it runs.
  @discardableResult
  func start() -> Bool {
    thread.withLock { thread in
      if thread == nil {
        thread = try? PosixThread(name: Self.name) { [self] in run() }
      }
      return thread != nil
    }
  }

  /// Runs `call` on the thread, after what was put in before.
  ///
  /// - Parameters:
  ///   - isVital: Whether it comes while others have no room any more.
  ///   - call: Calls the handler.
  /// - Returns: Whether there is a thread; without one nothing is ever called.
  @discardableResult
  func put(isVital: Bool = false, _ call: @escaping @Sendable () -> Void) -> Bool {
    let isRunning = start()
    let most = isVital ? Self.waitingMaxOfVital : Self.waitingMax
    state.withLock { state in
      if isRunning, state.waiting.count < most { state.waiting.append(call) } else { state.dropped += 1 }
    }
    wake.notify()
    return isRunning
  }

  /// Makes the thread end when everything that was put in has been called.
  func stop() {
    state.withLock { $0.isStopping = true }
    wake.notify()
  }

  /// Waits for that until `deadline`, on the observer's clock, unless it is called by the handler. Returns whether
  /// there is nothing more to wait for.
  func join(until deadline: UInt64) -> Bool { thread.withLock { $0 }?.join(until: deadline) ?? true }

  private func run() {
    while true {
      let seen = wake.seen
      let (next, isStopping) = state.withLock { state in
        (state.waiting.isEmpty ? nil : state.waiting.removeFirst(), state.isStopping)
      }
      if let next {
        mask.run(next)
      } else if isStopping {
        return
      } else {
        wake.wait(after: seen, until: .max)
      }
    }
  }
}

/// The handlers of one kind, each with its thread.
final class Handlers<Subject: Sendable>: Sendable {
  typealias Handler = @Sendable (Subject) -> Void

  private struct State {
    var current: [(handler: Handler, thread: HandlerThread)] = []
    var former: [HandlerThread] = []
    /// What handlers that were taken away had not been told of.
    var droppedBefore: UInt64 = 0
  }

  private let state = Mutex(State())

  /// Whether there is none.
  var isEmpty: Bool { state.withLock { $0.current.isEmpty } }

  /// What handlers were not told of, because they could not keep up.
  var dropped: UInt64 {
    state.withLock { state in
      (state.current.map(\.thread) + state.former).reduce(state.droppedBefore) { $0 + $1.dropped }
    }
  }

  /// Calls `handler` from now on. Returns what it is known by.
  @discardableResult
  func add(_ handler: @escaping Handler) -> HandlerThread {
    let thread = HandlerThread()
    // Now, because a thread cannot be made in every stall: it takes the lock of the address space.
    thread.start()
    state.withLock { $0.current.append((handler, thread)) }
    return thread
  }

  /// Calls the handler on `thread` no more. What it has been put has it called still.
  func remove(_ thread: HandlerThread) {
    // Let go of outside of the lock, as by `finish(until:)`.
    let removed = state.withLock { state -> Handler? in
      guard let place = state.current.firstIndex(where: { $0.thread === thread }) else { return nil }
      state.droppedBefore += thread.dropped
      return state.current.remove(at: place).handler
    }
    if removed != nil { thread.stop() }
  }

  /// Calls every handler with `subject`, soon.
  ///
  /// - Parameters:
  ///   - subject: What the handlers are called with.
  ///   - isVital: Whether it comes while others have no room any more.
  ///   - begin: Called before each handler, on its thread.
  ///   - completion: Called when every handler has returned; never if one is not called.
  /// - Returns: Whether there is any that can be called: where a thread cannot be made it cannot.
  @discardableResult
  func call(
    _ subject: Subject,
    isVital: Bool = false,
    after begin: @escaping @Sendable () -> Void = {},
    then completion: @escaping @Sendable () -> Void = {}
  ) -> Bool {
    let threads = state.withLock { $0.current }
    let left = Counter(threads.count)
    return threads.map { handler, thread in
      thread.put(isVital: isVital) {
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
      state.former += state.current.map(\.thread)
      return state.current
    }
    for (_, thread) in ended { thread.stop() }
    return ended.map { $0.thread.join(until: deadline) }.allSatisfy { $0 }
  }
}

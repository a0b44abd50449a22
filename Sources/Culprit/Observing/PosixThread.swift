import CObserver
import Glibc
import Synchronization

/// A thread of the watchdog's own: never from Dispatch or Swift Concurrency, whose pools may be what is stuck.
final class PosixThread: Sendable {
  private let thread: Mutex<pthread_t?>
  private let end: Answer<Bool>

  /// The kernel's ids of the threads that are running.
  private static let running = Mutex<Set<Int32>>([])

  /// Whether thread `id` is one of the watchdog's own.
  static func isOurs(_ id: Int32) -> Bool { running.withLock { $0.contains(id) } }

  /// Which signals a thread blocks.
  enum Signals {
    /// Those that its creator blocks: for a thread that runs the application's code.
    case asCreator
    /// All that the service may be sent, which are not its business. Not those that tell of a fault in the thread itself,
    /// and not SIGPROF, with which the runtime and profilers stop threads to look at them.
    case faultsOnly
  }

  /// Starts a thread called `name` (at most 15 characters) that runs `body`.
  ///
  /// - Throws: The error number of pthread_create(3).
  init(name: String, signals: Signals = .faultsOnly, _ body: @escaping @Sendable () -> Void) throws(PosixThreadError) {
    final class Start {
      let name: String
      let body: @Sendable () -> Void
      let end: Answer<Bool>
      init(_ name: String, _ body: @escaping @Sendable () -> Void, _ end: Answer<Bool>) {
        self.name = name
        self.body = body
        self.end = end
      }
    }
    end = Answer<Bool>()
    let start = Unmanaged.passRetained(Start(name, body, end))
    var all = sigset_t()
    var before = sigset_t()
    sigfillset(&all)
    for fault in [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGABRT, SIGPROF] { sigdelset(&all, fault) }
    pthread_sigmask(SIG_BLOCK, nil, &before)
    if signals == .faultsOnly { pthread_sigmask(SIG_SETMASK, &all, nil) }
    var created = pthread_t()
    let error = pthread_create(
      &created,
      nil,
      { argument in
        guard let argument else { return nil }
        // SAFETY: the argument is the reference retained above, consumed exactly once.
        let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
        observer_thread_set_name(start.name)
        let id = observer_task_self()
        PosixThread.running.withLock { _ = $0.insert(id) }
        start.body()
        PosixThread.running.withLock { _ = $0.remove(id) }
        start.end.give(true)
        return nil
      },
      start.toOpaque()
    )
    pthread_sigmask(SIG_SETMASK, &before, nil)
    guard error == 0 else {
      start.release()
      throw PosixThreadError(number: error)
    }
    thread = Mutex(created)
  }

  /// Whether this is the thread that asks.
  var isCurrent: Bool { thread.withLock { $0.map { pthread_equal($0, pthread_self()) != 0 } ?? false } }

  /// Lets the thread end by itself, whenever that is.
  func detach() {
    let left = thread.withLock { thread -> pthread_t? in
      defer { thread = nil }
      return thread
    }
    if let left { pthread_detach(left) }
  }

  /// Nobody will wait for the thread: what there is of it goes when it ends.
  deinit {
    thread.withLock { thread in
      if let thread { pthread_detach(thread) }
      thread = nil
    }
  }

  /// Waits until the thread has ended, until `deadline` at most, on the observer's clock. Does not wait when it is called by
  /// the thread itself. One that has not ended by then ends by itself, whenever that is.
  ///
  /// - Returns: Whether there is nothing more to wait for.
  @discardableResult
  func join(until deadline: UInt64) -> Bool {
    if isCurrent {
      detach()
      return true
    }
    guard end.wait(until: deadline) != nil else { return false }
    let waiting = thread.withLock { thread -> pthread_t? in
      defer { thread = nil }
      return thread
    }
    // It has nothing more to do but to end.
    if let waiting { pthread_join(waiting, nil) }
    return true
  }
}

/// A thread could not be started.
struct PosixThreadError: Error {
  var number: Int32
}

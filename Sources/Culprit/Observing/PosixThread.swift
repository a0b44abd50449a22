import CObserver
import Glibc
import Synchronization

/// A thread of the watchdog's own: never from Dispatch or Swift Concurrency, whose pools may be what is stuck.
final class PosixThread: Sendable {
  private let thread: Mutex<pthread_t?>
  /// Where it runs: what a child of fork(2) knows of its parent's threads is a memory that others may have by now.
  private let process = observer_process_stamp()

  /// The kernel's ids of the threads that are running.
  private static let running = Mutex<Set<Int32>>([])

  /// In a child of fork(2), before its first watchdog: none is running.
  static func startOver() { running.startOver([]) }

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
      init(_ name: String, _ body: @escaping @Sendable () -> Void) {
        self.name = name
        self.body = body
      }
    }
    let start = Unmanaged.passRetained(Start(name, body))
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
  var isCurrent: Bool {
    observer_process_is(process) && thread.withLock { $0.map { pthread_equal($0, pthread_self()) != 0 } ?? false }
  }

  /// Lets the thread end by itself, whenever that is.
  func detach() {
    guard observer_process_is(process) else { return }
    let left = thread.withLock { thread -> pthread_t? in
      defer { thread = nil }
      return thread
    }
    if let left { pthread_detach(left) }
  }

  /// Nobody will wait for the thread: what there is of it goes when it ends.
  deinit { detach() }

  /// Waits until the thread has ended; does nothing the second time, or when called by the thread itself.
  func join() {
    guard observer_process_is(process) else { return }
    let waiting = thread.withLock { thread -> pthread_t? in
      defer { thread = nil }
      return thread
    }
    guard let waiting else { return }
    if pthread_equal(waiting, pthread_self()) != 0 { pthread_detach(waiting) } else { pthread_join(waiting, nil) }
  }
}

/// A thread could not be started.
struct PosixThreadError: Error {
  var number: Int32
}

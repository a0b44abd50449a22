import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import Glibc
import Synchronization

/// A thread of the watchdog's own: never from Dispatch or Swift Concurrency, whose pools may be what is stuck.
final class PosixThread: Sendable {
  private let thread: Mutex<pthread_t?>
  private let end: Promise<Bool>
  /// Where it runs: what a child of fork(2) knows of its parent's threads is a memory that others may have by now.
  private let process = clinux_process_stamp()

  private struct Running {
    /// The kernel's ids of the threads that are running.
    var ids: Set<Int32> = []
    /// What those have used that have ended.
    var ended = ThreadUse()
    /// What all were said to have used last.
    var told = ThreadUse()
  }

  private static let running = Mutex(Running())

  /// In a child of fork(2), before its first watchdog: none is running.
  static func startOver() {
    running.startOver(Running())
    observer_own_use_start_over()
  }

  /// Whether thread `id` is one of the watchdog's own.
  static func isOurs(_ id: Int32) -> Bool { running.withLock { $0.ids.contains(id) } }

  /// What the threads have used so far, those included that have ended. Never less than it said before.
  static func used() -> ThreadUse {
    let (ids, ended) = running.withLock { ($0.ids, $0.ended) }
    var used = ended
    // Not under the lock: the kernel may hold up who asks for a thread.
    for id in ids { used += ThreadUse(of: id) }
    return running.withLock { [used] running in
      // One that ended meanwhile is in neither.
      running.told.processorNanoseconds = max(running.told.processorNanoseconds, used.processorNanoseconds)
      running.told.wakeups = max(running.told.wakeups, used.wakeups)
      return running.told
    }
  }

  /// Starts a thread called `name` (at most 15 characters) that runs `body`.
  ///
  /// It blocks every signal that the service may be sent, and is scheduled as the process was when it was started,
  /// whoever the caller is. Code of the application runs in it by ``HandlerMask/run(_:)``. While it works the process
  /// does not fork, if it can be waited for: what keeps it from working for long goes by ``resting(_:)``.
  ///
  /// - Throws: ``PosixThreadError`` when the thread cannot be started.
  init(name: String, _ body: @escaping @Sendable () -> Void) throws(PosixThreadError) {
    end = Promise<Bool>()
    clinux_fork_start()
    let start = Unmanaged.passRetained(Start(name, body, end))
    clinux_test_clock_thread_reached(CLINUX_THREAD_CREATED)
    var created = pthread_t()
    var error = Self.create(&created, isScheduled: true, start)
    // A sandbox may forbid to schedule, and the processors of the start may all be gone.
    if error != 0, error != EAGAIN { error = Self.create(&created, isScheduled: false, start) }
    guard error == 0 else {
      start.release()
      clinux_test_clock_thread_reached(CLINUX_THREAD_REFUSED)
      throw PosixThreadError(number: error, memoryLeft: clinux_process_memory_left())
    }
    thread = Mutex(created)
  }

  /// Creates a thread with the mask of the watchdog's threads. Returns the error number of pthread_create(3), 0 for
  /// none.
  private static func create(_ thread: inout pthread_t, isScheduled: Bool, _ start: Unmanaged<Start>) -> Int32 {
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    defer { pthread_attr_destroy(&attributes) }
    if isScheduled { clinux_scheduling_prepare(&attributes) }
    clinux_mask_prepare(&attributes)
    return pthread_create(&thread, &attributes, Self.run, start.toOpaque())
  }

  /// What a thread is started with.
  private final class Start {
    let name: String
    let body: @Sendable () -> Void
    let end: Promise<Bool>
    init(_ name: String, _ body: @escaping @Sendable () -> Void, _ end: Promise<Bool>) {
      self.name = name
      self.body = body
      self.end = end
    }
  }

  private static let run: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { argument in
    guard let argument else { return nil }
    // SAFETY: the argument is a reference that was retained for this thread, consumed exactly once.
    let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
    clinux_test_clock_thread_reached(CLINUX_THREAD_BEGAN)
    defer { clinux_test_clock_thread_reached(CLINUX_THREAD_ENDS) }
    clinux_fork_enter()
    defer { clinux_fork_leave() }
    clinux_scheduling_settle()
    clinux_task_set_name(start.name)
    let id = clinux_task_self()
    PosixThread.running.withLock { _ = $0.ids.insert(id) }
    // What handlers of the application use is the application's.
    let place = start.name == Workers.threadName ? -1 : observer_own_use_enter()
    start.body()
    observer_own_use_leave(place)
    let used = ThreadUse.ofCallingThread()
    PosixThread.running.withLock { running in
      running.ids.remove(id)
      running.ended += used
    }
    start.end.fulfill(true)
    return nil
  }

  /// So long an ordinary end takes at most, in nanoseconds.
  private static let endingTime: UInt64 = 100_000_000

  /// Whether this is the calling thread.
  var isCurrent: Bool { isThread { pthread_equal($0, pthread_self()) != 0 } }

  /// Whether the thread has called exit(3), as a handler of the application's can.
  private var isExiting: Bool { isThread { cprocess_ending_is_exiting_thread($0) } }

  private func isThread(_ condition: (pthread_t) -> Bool) -> Bool {
    clinux_process_is(process) && thread.withLock { $0.map(condition) ?? false }
  }

  /// Lets the thread end by itself, whenever that is.
  func detach() {
    guard clinux_process_is(process) else { return }
    let left = thread.withLock { thread -> pthread_t? in
      defer { thread = nil }
      return thread
    }
    if let left { pthread_detach(left) }
  }

  /// Nobody will wait for the thread: what there is of it goes when it ends.
  deinit { detach() }

  /// Waits until the thread has ended, until `deadline` at most, on the observer's clock. Does not wait when it is
  /// called by the thread itself, when the thread has called exit(3), or in a child of its process. One that has not ended by then ends by itself, whenever
  /// that is.
  ///
  /// - Returns: Whether there is nothing more to wait for.
  @discardableResult
  func join(until deadline: UInt64) -> Bool {
    guard clinux_process_is(process) else { return true }
    if isCurrent || isExiting {
      detach()
      return true
    }
    guard end.wait(until: deadline) != nil else { return false }
    let waiting = thread.withLock { thread -> pthread_t? in
      defer { thread = nil }
      return thread
    }
    guard let waiting else { return true }
    // It has nothing more to do but to end; but the kernel, which takes its stack back, may hold that up.
    let end = deadline == .max ? deadline : max(deadline, clinux_clock_ns() &+ Self.endingTime)
    guard resting({ clinux_task_join(waiting, end) }) else {
      pthread_detach(waiting)
      return false
    }
    return true
  }
}

/// A thread could not be started.
struct PosixThreadError: Error {
  /// The error number of pthread_create(3).
  var number: Int32
  /// What the process might still take then under RLIMIT_DATA and RLIMIT_AS, in bytes; `UInt64.max` without a limit.
  var memoryLeft = UInt64.max
}

extension WatchdogError {
  /// What a thread takes: 8 MiB of stack as a rule, and 128 MiB that the C library's allocator wants for a moment for a
  /// thread that allocates for the first time (a heap of 64 MiB that begins at a multiple of its size).
  private static let threadMemory: UInt64 = 136 << 20

  /// A thread of the watchdog's could not be started.
  static func threadNotStarted(_ error: PosixThreadError) -> WatchdogError {
    let reason = "a thread cannot be started: \(String(cString: strerror(error.number)))"
    // That number stands for a limit of threads as well (RLIMIT_NPROC), which would be looked for in vain.
    guard error.number == EAGAIN, error.memoryLeft < threadMemory else { return WatchdogError(.unsupported, reason) }
    return WatchdogError(
      .unsupported,
      "\(reason); \(error.memoryLeft) bytes are left of RLIMIT_DATA or RLIMIT_AS, and a thread may take \(threadMemory)"
    )
  }
}

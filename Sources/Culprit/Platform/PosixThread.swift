import CCulpritLinux
import CCulpritObserver
import CCulpritProcess
import Glibc

/// A thread of the watchdog, outside the pools of Dispatch and Swift Concurrency, which might be stalled.
final class PosixThread: Sendable {
  private let thread: Mutex<pthread_t?>
  private let end: Promise<Bool>
  /// The owning process: a child of fork(2) inherits `thread`, whose memory might have been reused.
  private let process = clinux_process_stamp()

  private struct Running {
    var ids = Set<Int32>(minimumCapacity: 64)
    var ended = ThreadUse()
    var reported = ThreadUse()
  }

  private static let running = Mutex(Running())

  /// Resets the state in a child of fork(2), before its first watchdog: no thread is running.
  static func startOver() {
    running.startOver(Running())
    observer_own_use_start_over()
  }

  static func isOurs(_ id: Int32) -> Bool { running.withLock { $0.ids.contains(id) } }

  /// Returns the use of all threads, including ended ones. Never decreases.
  static func used() -> ThreadUse {
    let (ids, ended) = running.withLock { ($0.ids, $0.ended) }
    var used = ended
    // Reading runs without the lock, because the kernel might block it.
    for id in ids { used += ThreadUse(of: id) }
    return running.withLock { [used] running in
      // A thread that ended during the reads is missing, so the maximum is used.
      running.reported.cpuNanoseconds = max(running.reported.cpuNanoseconds, used.cpuNanoseconds)
      running.reported.wakeups = max(running.reported.wakeups, used.wakeups)
      return running.reported
    }
  }

  /// Starts a thread with the name `name` (at most 15 characters) that runs `body`.
  ///
  /// The thread has the scheduling of the process's start. It blocks the application's signals, so application code
  /// must run through ``HandlerMask/run(_:)``. Forks of the process wait while the thread is working, so long waits
  /// must run through ``allowingFork(_:)``.
  init(
    name: String,
    stack: Stack = .own,
    _ body: @escaping @Sendable () -> Void
  ) throws(WatchdogError) {
    end = Promise<Bool>()
    // Creates `running` on the calling thread: a new thread would reserve an arena for this allocation.
    Self.running.withLock { _ in }
    clinux_fork_start()
    let start = Unmanaged.passRetained(Start(name, body, end))
    clinux_test_clock_thread_reached(CLINUX_THREAD_CREATED)
    var created = pthread_t()
    var error = Self.create(&created, stack, isScheduled: true, start)
    // A sandbox might forbid setting the scheduling, or all CPUs of the process's start might be offline.
    if error != 0, error != EAGAIN { error = Self.create(&created, stack, isScheduled: false, start) }
    guard error == 0 else {
      start.release()
      clinux_test_clock_thread_reached(CLINUX_THREAD_REFUSED)
      throw .threadNotStarted(error)
    }
    thread = Mutex(created)
  }

  /// Returns the error number of pthread_create(3), 0 on success.
  private static func create(
    _ thread: inout pthread_t,
    _ stack: Stack,
    isScheduled: Bool,
    _ start: Unmanaged<Start>
  ) -> Int32 {
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    defer { pthread_attr_destroy(&attributes) }
    if isScheduled { clinux_scheduling_prepare(&attributes) }
    clinux_mask_prepare(&attributes)
    if stack == .own { clinux_scheduling_prepare_stack(&attributes, ownStackBytes) }
    return pthread_create(&thread, &attributes, Self.run, start.toOpaque())
  }

  enum Stack {
    /// For the watchdog's code.
    case own
    /// The default size, for the application's code.
    case application
  }

  /// As the C library's default without a limit of stacks (setrlimit(2), RLIMIT_STACK).
  private static let ownStackBytes = 2 << 20

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
    setName(start.name)
    let id = clinux_task_self()
    PosixThread.running.withLock { _ = $0.ids.insert(id) }
    // CPU time of the application's handlers does not count as the watchdog's.
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

  /// Sets the name of the calling thread without allocating memory: the first allocation of a thread reserves 64 MiB for
  /// an arena, which idle threads do not need.
  private static func setName(_ name: String) {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: nameBytes + 1) { text in
      text.initialize(repeating: 0)
      for (index, byte) in name.utf8.prefix(nameBytes).enumerated() { text[index] = CChar(bitPattern: byte) }
      // SAFETY: the text ends with a zero byte, and is copied.
      text.baseAddress.map { clinux_task_set_name($0) }
    }
  }

  private static let nameBytes = 15

  /// Longest time of a thread's ordinary exit, in nanoseconds.
  private static let endingTime: UInt64 = 100_000_000

  var isCurrent: Bool { isThread { pthread_equal($0, pthread_self()) != 0 } }

  /// Whether the thread has called exit(3), as a handler can.
  private var isExiting: Bool { isThread { cprocess_ending_is_exiting_thread($0) } }

  private func isThread(_ condition: (pthread_t) -> Bool) -> Bool {
    clinux_process_is(process) && thread.withLock { $0.map(condition) ?? false }
  }

  func detach() {
    guard clinux_process_is(process) else { return }
    if let left = thread.exchange(nil) { pthread_detach(left) }
  }

  deinit { detach() }

  /// Waits until `deadline` for the thread's end. Does not wait in a child of its process, on the thread itself, or
  /// after the thread has called exit(3). Returns `false` if the thread does not end in time.
  @discardableResult
  func join(until deadline: UInt64) -> Bool {
    guard clinux_process_is(process) else { return true }
    if isCurrent || isExiting {
      detach()
      return true
    }
    guard end.wait(until: deadline) != nil else { return false }
    guard let waiting = thread.exchange(nil) else { return true }
    // The thread's function has returned, but the kernel might block the release of the stack.
    let end = deadline == .max ? deadline : max(deadline, clinux_clock_ns() &+ Self.endingTime)
    guard allowingFork({ clinux_task_join(waiting, end) }) else {
      pthread_detach(waiting)
      return false
    }
    return true
  }
}

/// A thread that is started at most once.
final class OnDemandThread: Sendable {
  private let thread = Mutex<PosixThread?>(nil)

  func start(
    name: String,
    stack: PosixThread.Stack = .own,
    _ body: @escaping @Sendable () -> Void
  ) throws(WatchdogError) {
    try thread.withLock { thread throws(WatchdogError) in
      if thread == nil { thread = try PosixThread(name: name, stack: stack, body) }
    }
  }

  /// Waits until `deadline` for the thread's end. Returns whether the thread has ended or was not started.
  func join(until deadline: UInt64) -> Bool { thread.withLock { $0 }?.join(until: deadline) ?? true }
}

extension WatchdogError {
  /// Memory for a thread, in bytes: usually 8 MiB of stack, plus 128 MiB that glibc's allocator reserves to align the
  /// thread's heap.
  private static let threadMemory: UInt64 = 136 << 20

  /// `error` is the error number of pthread_create(3).
  fileprivate static func threadNotStarted(_ error: Int32) -> WatchdogError {
    let reason = "cannot start a thread: \(String(cString: strerror(error)))"
    let left = clinux_process_memory_left()
    // EAGAIN also stands for a limit of threads (RLIMIT_NPROC).
    guard error == EAGAIN, left < threadMemory else { return WatchdogError(.unsupported, reason) }
    return WatchdogError(
      .unsupported,
      "\(reason); \(left) bytes are left of RLIMIT_DATA or RLIMIT_AS, and a thread may take \(threadMemory)"
    )
  }
}

import Glibc
import Synchronization

/// Ends the command after SIGHUP, SIGINT or SIGTERM. Removes temporary files, waits for the pager, and lets the signal
/// end the process, which shows the cause to the shell.
///
/// A thread waits for the signals, so no signal handler is needed.
enum Interruption {
  /// A file or directory to remove at the end.
  enum Temporary: Sendable {
    case file
    /// A directory and the files in it.
    case directory
    /// A directory, only if it is empty.
    case emptyDirectory
  }

  private static let temporaries = Mutex<[String: Temporary]>([:])
  private static let hasArrived = Atomic<Bool>(false)
  private static let isAwaited = Atomic<Bool>(false)
  /// Sent by the command to itself at its end. Its arrival proves that no other awaited signal is pending: the kernel
  /// delivers the lowest number first (signal(7)).
  private static let endSignal = __libc_current_sigrtmin()
  // SAFETY: a semaphore is thread-safe, and it is never destroyed.
  nonisolated(unsafe) private static let endSignalArrived = {
    let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    sem_init(semaphore, 0, 0)
    return semaphore
  }()

  /// The signal mask at the start of the command.
  // SAFETY: written once, before there is a second thread.
  nonisolated(unsafe) private static var originalMask = sigset_t()

  static var maskOfChildren: sigset_t { originalMask }

  /// Starts waiting for signals. Must be called before threads are created, because they inherit the signal mask.
  static func listen() {
    var awaited = sigset_t()
    sigemptyset(&awaited)
    for signal in [SIGHUP, SIGINT, SIGTERM] {
      var action = sigaction()
      sigaction(signal, nil, &action)
      // Signals ignored at the start (nohup) stay ignored.
      let handler = unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
      if handler != unsafeBitCast(SIG_IGN, to: Int.self) { sigaddset(&awaited, signal) }
    }
    sigaddset(&awaited, endSignal)
    pthread_sigmask(SIG_BLOCK, &awaited, &originalMask)
    atexit { Interruption.end() }
    let signals = awaited
    let hasThread = startThread {
      var signals = signals
      var signal: Int32 = 0
      while sigwait(&signals, &signal) != 0 {}
      if signal == endSignal { sem_post(endSignalArrived) } else { die(of: signal) }
    }
    isAwaited.store(hasThread, ordering: .releasing)
    // Without the thread, signals keep their default action.
    if !hasThread { pthread_sigmask(SIG_SETMASK, &originalMask, nil) }
  }

  /// Runs `body`, which can change the temporary files. Signals cannot interrupt it.
  static func withoutInterruption<Value, Failure: Error>(
    _ body: (inout [String: Temporary]) throws(Failure) -> Value
  ) throws(Failure) -> Value {
    // Both variables are used only with the lock held.
    nonisolated(unsafe) let body = body
    nonisolated(unsafe) var result: Value?
    try temporaries.withLock { (kept) throws(Failure) in
      result = try body(&kept)
    }
    guard let result else { fatalError("the body has returned") }
    return result
  }

  static func remove(_ path: String, _ kind: Temporary) {
    switch kind {
    case .file: unlink(path)
    case .emptyDirectory: rmdir(path)
    case .directory:
      if let directory = opendir(path) {
        while let entry = readdir(directory) {
          let name = withUnsafePointer(to: &entry.pointee.d_name) {
            // SAFETY: the kernel terminates names with a zero byte.
            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
          }
          if name != ".", name != ".." { unlink("\(path)/\(name)") }
        }
        closedir(directory)
      }
      rmdir(path)
    }
  }

  /// Ends the process with `signal`. Holding the lock prevents other threads from ending the process first.
  private static func die(of signal: Int32) -> Never {
    hasArrived.store(true, ordering: .releasing)
    Progress.shared.end()
    temporaries.withLock { kept in
      // Removes the contents of directories before the directories.
      for (path, kind) in kept.sorted(by: { $0.key > $1.key }) { remove(path, kind) }
      Pager.end()
      var only = sigset_t()
      sigemptyset(&only)
      sigaddset(&only, signal)
      Glibc.signal(signal, SIG_DFL)
      pthread_sigmask(SIG_UNBLOCK, &only, nil)
      raise(signal)
    }
    _exit(128 + signal)
  }

  /// Runs when the process ends without a signal.
  private static func end() {
    if hasArrived.load(ordering: .acquiring) { while true { pause() } }
    Progress.shared.end()
    Pager.end()
    // A pending signal takes precedence, even if the waiting thread has not run since the signal arrived.
    guard isAwaited.load(ordering: .acquiring) else { return }
    kill(getpid(), endSignal)
    while sem_wait(endSignalArrived) != 0 {}
  }
}

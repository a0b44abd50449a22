import Glibc
import Synchronization

/// The end of the command by a signal (SIGHUP, SIGINT, SIGTERM): what is half written goes, a pager gets what there is and is waited
/// for, and the command dies of the signal, so that a shell knows it.
///
/// A thread waits for the signals, so that nothing of it happens in a handler.
enum Interruption {
  /// What is not to be left behind.
  enum Temporary: Sendable {
    case file
    /// A directory with files, and what is in it.
    case directory
    /// A directory, if there is nothing in it.
    case emptyDirectory
  }

  /// By path. Whoever has it is not interrupted meanwhile.
  private static let temporaries = Mutex<[String: Temporary]>([:])
  private static let hasCome = Atomic<Bool>(false)
  /// Whether a thread waits for the signals.
  private static let isAwaited = Atomic<Bool>(false)
  /// What the command sends to itself at its end. The kernel hands out the lowest number of a process first (signal(7)): when this
  /// one is there, no other is.
  private static let noMore = __libc_current_sigrtmin()
  // SAFETY: posted by one thread, waited for by another, and never destroyed.
  nonisolated(unsafe) private static let noMoreHasCome = {
    let semaphore = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    sem_init(semaphore, 0, 0)
    return semaphore
  }()

  /// The signals that were blocked when the command was started.
  // SAFETY: written once, before there is a second thread.
  nonisolated(unsafe) private static var originalMask = sigset_t()

  /// The signals that a program that this one starts is to have blocked.
  static var maskOfChildren: sigset_t { originalMask }

  /// Begins to wait for the signals. Called before anything else has been started: threads inherit what is blocked.
  static func listen() {
    var awaited = sigset_t()
    sigemptyset(&awaited)
    for signal in [SIGHUP, SIGINT, SIGTERM] {
      var action = sigaction()
      sigaction(signal, nil, &action)
      // What the command's starter has it ignore (nohup) stays so.
      // SAFETY: without SA_SIGINFO, which this program does not set, the union holds this handler; SIG_IGN is one.
      let handler = unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
      if handler != unsafeBitCast(SIG_IGN, to: Int.self) { sigaddset(&awaited, signal) }
    }
    sigaddset(&awaited, noMore)
    pthread_sigmask(SIG_BLOCK, &awaited, &originalMask)
    atexit { Interruption.end() }
    let signals = awaited
    let hasThread = startThread {
      var signals = signals
      var signal: Int32 = 0
      while sigwait(&signals, &signal) != 0 {}
      if signal == noMore { sem_post(noMoreHasCome) } else { die(of: signal) }
    }
    isAwaited.store(hasThread, ordering: .releasing)
    // Then they do what they always do.
    if !hasThread { pthread_sigmask(SIG_SETMASK, &originalMask, nil) }
  }

  /// Runs `body`, which may change what is not to be left behind, and which no signal divides.
  static func withoutInterruption<Value, Failure: Error>(
    _ body: (inout [String: Temporary]) throws(Failure) -> Value
  ) throws(Failure) -> Value {
    // Neither is shared with anybody: the lock is taken for the time in which they are used.
    nonisolated(unsafe) let body = body
    nonisolated(unsafe) var result: Value?
    try temporaries.withLock { (kept) throws(Failure) in
      result = try body(&kept)
    }
    guard let result else { fatalError("the body has returned") }
    return result
  }

  /// Removes what is at `path`.
  static func remove(_ path: String, _ kind: Temporary) {
    switch kind {
    case .file: unlink(path)
    case .emptyDirectory: rmdir(path)
    case .directory:
      if let directory = opendir(path) {
        while let entry = readdir(directory) {
          let name = withUnsafePointer(to: &entry.pointee.d_name) {
            // SAFETY: the kernel ends names with a zero.
            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
          }
          if name != ".", name != ".." { unlink("\(path)/\(name)") }
        }
        closedir(directory)
      }
      rmdir(path)
    }
  }

  /// Ends the process as `signal` does. Whoever would end it otherwise is held up.
  private static func die(of signal: Int32) -> Never {
    hasCome.store(true, ordering: .releasing)
    Progress.shared.end()
    temporaries.withLock { kept in
      // What is in a directory comes before it.
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

  /// What comes before the end of the process in any other way.
  private static func end() {
    if hasCome.load(ordering: .acquiring) { while true { pause() } }
    Progress.shared.end()
    Pager.end()
    // A signal that has come meanwhile counts, even if the thread that waits for it has not run since: under load it lags.
    guard isAwaited.load(ordering: .acquiring) else { return }
    kill(getpid(), noMore)
    while sem_wait(noMoreHasCome) != 0 {}
  }
}

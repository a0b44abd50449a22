import CulpritBlame

extension StallReport.Cause.Kind {
  /// Advice about a cause of this kind, as in docs/causes.md.
  public var explanation: String {
    switch self {
    case .computing:
      "The thread was on a CPU. Do less at once: move the work to another thread, or divide it and let the loop "
        + "turn in between. The tree shows which callee takes the time. If it is a library, give it less to do."
    case .deallocation:
      "The release of the last reference to a large structure frees all of it at once, on the releasing thread. "
        + "Release it on another thread, use fewer and larger objects, or empty it step by step."
    case .lock:
      "Look at the owner of the lock, not at the waiting thread; the report names the owner if it is known. Hold "
        + "the lock for less time: do I/O and other slow work outside it. Take no lock on a thread that must not wait. "
        + "An actor runs one job at a time, like a lock: keep long work out of it."
    case .deadlock:
      "None of these threads can continue: the process must be ended. Take locks in one order everywhere, hold none "
        + "while waiting for a queue or a thread, and never block a pool thread for work of another task: await it. "
        + "A thread that waits for itself must not take a lock that it holds, or use a value while initializing it."
    case .initialization:
      "Another thread initializes a value on its first use (a global, a static let, dispatch_once), and all users "
        + "wait. Initialize it at launch, or make its first use do less."
    case .loader:
      "Another thread loads, unloads or lists libraries and holds the lock of the dynamic loader. Load libraries at "
        + "launch. Constructors of libraries should do little."
    case .threadEnd:
      "Joining a thread waits for all its remaining work. Join it on a thread that can wait, ask it to stop first, "
        + "or let it report its end."
    case .signal:
      "A semaphore, condition or group has no owner, so the late thread cannot be named. Find the code that signals "
        + "it, and check the other threads of the report. Wait with a timeout, or use a callback or an await. A wait "
        + "for events means that no event arrived on its descriptors: check the sender."
    case .awaiting:
      "The task waits for another task, an actor or a callback; no thread is blocked. Check what it awaits: was it "
        + "started, is the continuation resumed on every path, is the actor busy?"
    case .childProcess:
      "A child process can run for any time. Read its output before waiting for its end, because a child that fills "
        + "a pipe waits for its reader. Wait on a thread that can wait, or use a notification (terminationHandler, "
        + "SIGCHLD, a pidfd in the loop), with a time limit."
    case .interProcess:
      "The other end of the pipe, socket or queue did not read or write. It can be a process, a thread or a "
        + "terminal. Make the descriptor non-blocking and wait in the loop, set a time limit, and check the other end."
    case .network:
      "A peer did not answer, and the call has no time limit or a long one. Use non-blocking sockets in the loop, "
        + "set time limits for connecting, reading and writing, and resolve names on another thread."
    case .file:
      "Reads can wait for a disk, and fsync waits for all earlier writes. Use a thread for files, larger pieces, "
        + "and one sync for many changes. Cache what is read repeatedly."
    case .memory:
      "A page had to be read from a disk, or memory had to be reclaimed first. Check the memory limit of the "
        + "control group and the other users of memory. Lock critical memory (mlock), and do not map files on slow file "
        + "systems."
    case .congestion:
      "The threads worked, and there was more work than they could do: no single job is at fault. Send less, use "
        + "more queues or threads, combine jobs, or refuse work when too much waits."
    case .noCPU:
      "The thread was runnable, but other threads had the CPUs, or the quota of the control group (cpu.max) was "
        + "used up. Raise the quota or the request, run less on the machine, or use fewer threads."
    case .sleep:
      "The code asked for the wait. Do not sleep on a thread that other work waits for: use a timer of the loop, or "
        + "Task.sleep in a task. For retries, enqueue the work again with a delay."
    default:
      "There are no samples of this time, or no recorded evidence explains the wait. Check the notes, the system "
        + "call and the last stack. Symbols of the C library and the runtime (debug packages) may help."
    }
  }
}

extension StallReport {
  func firstStep(_ cause: Cause) -> String {
    switch cause.kind {
    case .computing: "Do less at once: move it to another thread, or divide it and let other work run in between."
    case .deallocation: "Release the structure on another thread, or use fewer and larger objects."
    case .lock where cause.subjects.first?.code == AwaitedObject.actor.rawValue:
      "Keep long work out of the actor: it runs one thing at a time."
    case .lock where waitChains.isEmpty && !notes.contains { $0.kind == .fileLock }:
      "Find its owner, first among the other threads, and hold it for less time."
    case .lock: "Look at its owner, and move that work before or after the lock."
    case .deadlock: "End the process; then \(deadlockRemedy)."
    case .initialization: "Initialize it at launch, before work that must not wait."
    case .loader: "Load libraries at launch."
    case .threadEnd: "Join the thread on a thread that can wait, or let it report its end."
    case .signal: "Find the code that should have signalled it, first among the other threads; wait with a time limit."
    case .awaiting: "Check the awaited work: was it started, and is every continuation resumed?"
    case .childProcess: "Wait for the child on another thread, with a time limit."
    case .interProcess: "Check the other end, and wait for it without blocking."
    case .network: "Set a time limit, and wait for the peer without blocking."
    case .file: "Read and write files on a separate thread, in larger pieces."
    case .memory: "Check the memory limit and the other users of memory."
    case .congestion: "Send less, or use more threads: no single job is at fault."
    case .noCPU: "Check the CPU quota and the other load of the machine."
    case .sleep where !cause.subjects.isEmpty:
      "Find out what the library waits for, and give the call a time limit."
    case .sleep where (taskTimes?.suspended ?? .zero) * 2 >= cause.time:
      "The task asked for the wait, and blocks no thread: sleep for less, or await the event itself."
    case .sleep: "Do not sleep on a thread that other work waits for: use a timer."
    default: "Check the notes and the last stack."
    }
  }

  private var deadlockRemedy: String {
    let ring = waitChains.first(where: \.isDeadlock)?.links ?? []
    let isAlone = Set(ring.map(\.holder.id)).count == 1
    if ring.contains(where: { $0.kind == .initialization }) {
      return isAlone
        ? "keep the initializer from using the value that it initializes"
        : "keep each initializer from using a value whose initializer needs it in turn"
    }
    guard isAlone else { return "take these locks in one order everywhere" }
    return ring.contains { $0.kind == .queue }
      ? "do not call sync on the queue that the thread runs on" : "do not take a lock that the thread holds already"
  }
}

import CulpritBlame

extension StallReport.Cause.Kind {
  /// What can be done about a cause of this kind, in two or three sentences; docs/causes.md has them all.
  public var explanation: String {
    switch self {
    case .computing:
      "The thread had a processor and used it. Do less in one go: move the work to another thread, divide it and let the loop turn in "
        + "between, or find out in the tree below which callee has the time. Where it is the work of a library, give it less to do."
    case .deallocation:
      "Letting go of the last reference to a large structure frees all of it at once, on the thread that lets go. Give it to another "
        + "thread to let go of, keep it in fewer and larger pieces, or empty it step by step."
    case .lock:
      "Look at who holds the lock, not at who waits: the report names that thread where it is known. Hold the lock for less: do input "
        + "and output, and whatever may take long, before or after. Do not take a lock on a thread that must not wait. An actor runs one "
        + "thing at a time, as under a lock: keep long work out of it."
    case .deadlock:
      "Nobody will ever go on: the process has to be ended. Take locks in the same order everywhere, hold none while waiting for a queue "
        + "or a thread, and let no task block a thread of the pool for what another task has to do: await it. A thread "
        + "that waits for itself must not take a lock that it holds, nor use a value while it initializes it."
    case .initialization:
      "Something that is initialized once (a global, a static let, dispatch_once) was being initialized by another thread, and whoever "
        + "uses it waits. Initialize it at launch, before the work that must not wait, or make what it does at first use less."
    case .loader:
      "Another thread loads or unloads a library, or walks through the list of them, and holds the loader's lock with it. Load libraries "
        + "at launch; constructors of libraries should do little."
    case .threadEnd:
      "Joining a thread waits for all that it still has to do. Join it on a thread that may wait, tell it to stop first, or let it report "
        + "its end by itself."
    case .signal:
      "Nobody owns a semaphore, a condition or a group, so nobody can be named who is late: look for who signals it, and at the other "
        + "threads of the report. Wait with a timeout, or not at all: let the one who would signal call back, or await it. Where it waits "
        + "for events, nothing came on its descriptors: look at who should have sent something."
    case .awaiting:
      "The task waits for another one, an actor or a callback; no thread is held up by it. Look at what it awaits: is that started, "
        + "does a continuation get resumed on every way, is the actor busy?"
    case .childProcess:
      "A child process runs for as long as it likes. Read its output before waiting for its end: a child that writes into a full pipe "
        + "waits for its reader. Wait on a thread that may wait, or be told of its end (terminationHandler, SIGCHLD, a pidfd in the loop), "
        + "and give it a time limit."
    case .interProcess:
      "The other end of the pipe, socket or queue, which may be another process, another thread or somebody at a terminal, did not "
        + "read or write. Make the descriptor non-blocking and wait for it in the loop, set a time limit, and look at what the other end "
        + "does."
    case .network:
      "A peer did not answer, and the call has no time limit or a long one. Use non-blocking sockets in the loop, set time limits for "
        + "connecting, reading and writing, and resolve names elsewhere."
    case .file:
      "Disks and file systems take as long as they take: a read may wait for a disk, and fsync for all that was written before. Do it on "
        + "threads for that, in larger pieces, and sync once for many changes. What is read from the cache again and again can be kept."
    case .memory:
      "The page had to be read in, or memory to be freed first. Look at the memory limit of the control group and at what else uses the "
        + "memory; lock what must be at hand (mlock), and do not map files that are read from slow file systems."
    case .congestion:
      "The threads did what they could, and there was more: no single piece of work is at fault. Send less, do it on more queues or "
        + "threads, put pieces together, or refuse work when too much of it waits."
    case .noProcessor:
      "The thread wanted to run, and others had the processors, or the quota of the control group was used up (cpu.max). Raise the quota "
        + "or the request, run less beside it, or use fewer threads than the quota has room for."
    case .sleep:
      "The code asked for the wait. Do not sleep on a thread that others wait for: use a timer of the loop, or Task.sleep in a task; for "
        + "retries, give the work back to the queue with a delay."
    default:
      "For a part of the stall nobody looked, or nothing that was recorded tells what it waited for. Look at the notes, the system "
        + "call and the last stack; with the symbols of the C library and the runtime (debug packages) more may be told."
    }
  }
}

extension StallReport {
  /// What to do first about `cause`, in one sentence.
  func firstStep(_ cause: Cause) -> String {
    switch cause.kind {
    case .computing: "Do less in one go: move it to another thread, or divide it and let other work run in between."
    case .deallocation: "Give the structure to another thread to let go of, or keep it in fewer and larger pieces."
    case .lock where cause.subjects.first?.code == AwaitedObject.actor.rawValue:
      "Keep long work out of the actor: it runs one thing at a time."
    case .lock where waitChains.isEmpty && !notes.contains { $0.kind == .fileLock }:
      "Find out who holds it, among the other threads first, and have it held for less."
    case .lock: "Look at who holds it, and have that done before or after the lock is taken."
    case .deadlock: "End the process; then \(deadlockRemedy)."
    case .initialization: "Initialize it at launch, before work that must not wait."
    case .loader: "Load libraries at launch."
    case .threadEnd: "Join the thread where waiting is allowed, or let it report its end by itself."
    case .signal: "Look for who should have signalled it, among the other threads first; wait with a time limit."
    case .awaiting: "Look at what is awaited: was it started, and is every continuation resumed?"
    case .childProcess: "Wait for the child on another thread, with a time limit."
    case .interProcess: "Look at what the other end does, and wait for it without blocking."
    case .network: "Set a time limit, and wait for the peer without blocking."
    case .file: "Read and write files on threads for that, in larger pieces."
    case .memory: "Look at the memory limit, and at what else uses the memory."
    case .congestion: "Send less, or do it on more threads: no single piece of work is at fault."
    case .noProcessor: "Look at the processor quota, and at what runs beside it."
    case .sleep where !cause.subjects.isEmpty:
      "Find out what the library waits for and who has it, and give the call a time limit."
    case .sleep where (taskTimes?.suspended ?? .zero) * 2 >= cause.time:
      "The task asked for the wait, and holds no thread meanwhile: sleep for less, or await the event itself."
    case .sleep: "Do not sleep where others wait: go on by a timer, or try again later."
    default: "Look at the notes and the last stack."
    }
  }

  /// The change that prevents the deadlock of the report.
  private var deadlockRemedy: String {
    let ring = waitChains.first(where: \.isDeadlock)?.links ?? []
    let isAlone = Set(ring.map(\.holder.id)).count == 1
    if ring.contains(where: { $0.kind == .initialization }) {
      return isAlone
        ? "keep the initializer from using the value that it initializes"
        : "keep each initializer from using a value whose initializer needs it in turn"
    }
    guard isAlone else { return "take these locks in the same order everywhere" }
    return ring.contains { $0.kind == .queue }
      ? "do not call sync on the queue that the thread runs on" : "do not take a lock that the thread holds already"
  }
}

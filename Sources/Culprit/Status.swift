import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind
import CulpritStallRecord
import Glibc

extension Watchdog {
  /// How a watchdog is doing.
  public struct Status: Sendable {
    /// Whether it watches.
    public var mode: Mode
    /// How often the monitor has looked at the watched work.
    public var wakeups: UInt64
    /// What hangs now: past its hang threshold, and not over when the monitor looked last.
    public var hanging: [Hang]
    /// How many stacks have been copied by a signal handler in this process, those for checking the set-up included.
    public var captures: UInt64
    /// How many threads answered when nobody waited for them any more.
    public var lateAnswers: UInt64
    /// How many stalls no handler was told of, because handlers could not keep up.
    public var reportsDropped: UInt64
    /// What systemd has been told; `nil` when it is not told anything.
    public var systemd: SystemdState?
    /// What could not be saved, and why: the first sixteen sentences. What is wrong with the environment and with the
    /// configuration file.
    public var problems: [String]
    /// What is lost in this process; empty where everything can be observed.
    public var limitations: [Limitation]
  }

  /// Something that hangs.
  public struct Hang: Hashable, Sendable {
    /// What it is.
    public var source: WatchedSource
    /// For how long its work has been going on.
    public var age: Duration
    /// The thread that works on it, 0 if that is not known.
    public var threadID: Int32

    /// What hangs of what `control`'s monitor watches.
    static func found(_ control: ControlBlock) -> [Hang] {
      guard let stalls = observer_stall_table() else { return [] }
      let delay = observer_control_hang_delay_ns(control.pointer)
      var found: [Hang] = []
      for index in 0..<Int(min(observer_control_slots_used(control.pointer), UInt32(OBSERVER_SLOTS_MAX))) {
        var view = observer_stall_snapshot()
        // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the size of the table, which is never freed.
        observer_stall_read(stalls + index, &view)
        let (limit, overflow) = view.threshold_ns.addingReportingOverflow(delay)
        guard view.item != 0, !overflow, view.age_ns >= limit, let source = SlotRegistry.shared.source(index) else {
          continue
        }
        found.append(Hang(source: source, age: Duration(wholeNanoseconds: view.age_ns), threadID: view.tid))
      }
      return found
    }
  }

  /// Whether a watchdog watches.
  public enum Mode: Hashable, Sendable {
    /// It does.
    case watching
    /// It is switched off, and can be switched on.
    case switchedOff
    /// CULPRIT_DISABLE was set when it was to be started: nothing is watched, and nothing runs.
    case disabled
  }

  /// Something that cannot be observed here, because the process or its sandbox lacks what it takes.
  public enum Limitation: Hashable, Sendable, CustomStringConvertible {
    /// Stacks of blocked threads are missing: the kernel does not tell what threads do, for `reason`. Threads that
    /// compute are captured all the same.
    case blockedThreads(reason: String)
    /// Timers on a thread's processor time were refused when the watchdog was started, so that threads that compute are
    /// sent their signal at once: a system call that the thread enters in just that moment can return early.
    case signalsAtOnce
    /// Memory is read through a pipe. Stacks of coroutines and of handlers on alternate stacks, whose extent is not
    /// known, are missing for threads that compute.
    case unknownStacks
    /// The list of the process's threads cannot be read, for `reason`: a stall's record has no other threads.
    case otherThreads(reason: String)
    /// The library that unwinds stacks could not be copied: a thread of the service that uses it, too, and is held up
    /// in it can hold up the monitor.
    case sharedUnwinder
    /// Somebody has installed another handler for SIGPROF: threads that compute cannot be captured.
    case handlerReplaced
    /// The kernel holds up `samplers` of the `of` threads that can take stacks. While that is all of them, no stack is
    /// taken; stalls are noticed, timed and acted on all the same.
    case samplersHeldUp(Int, of: Int)
    /// Memory is read by process_vm_readv or /proc/self/mem, which can wait for a lock of the kernel's: a stall in
    /// which a page fault is not answered may have no stacks.
    case readingWaits

    /// What is lost, and why, in a sentence without its end.
    public var description: String {
      switch self {
      case .blockedThreads(let reason):
        "stacks of blocked threads cannot be read, because /proc/self/task/TID/syscall cannot be opened: \(reason)"
      case .signalsAtOnce:
        "a system call can return early when its thread enters it just when it is captured, because timer_create is refused"
      case .unknownStacks:
        "coroutine and alternate stacks cannot be read: memfd_create, process_vm_readv and /proc/self/mem are refused"
      case .otherThreads(let reason):
        "the other threads are missing in reports, because /proc/self/task cannot be read: \(reason)"
      case .sharedUnwinder:
        "libunwind is shared with the service, because neither a copy of it nor another namespace can be loaded"
      case .handlerReplaced:
        "stacks of computing threads cannot be captured, because another handler has been installed for SIGPROF"
      case .samplersHeldUp(_, of: 0):
        "no stacks are taken: the threads of an earlier watchdog that take them have not ended; stalls are noticed all the same"
      case .samplersHeldUp(let held, let all) where held < all:
        "the kernel holds up \(held) of the \(all) threads that can take stacks"
      case .samplersHeldUp(let held, _):
        "no stacks are taken: the kernel holds up every thread that can, \(held) in all; stalls are noticed all the same"
      case .readingWaits:
        "a stall in which a page fault is not answered may have no stacks, because no file in memory (memfd_create) can be used"
      }
    }

    /// What is lost here and now.
    static func found(_ samplers: SamplerPool) -> [Limitation] {
      var found: [Limitation] = []
      let (held, all) = samplers.heldUp
      if held > 0 || all == 0 { found.append(.samplersHeldUp(held, of: all)) }
      let file = clinux_task_open_syscall(clinux_task_self())
      if file < 0 { found.append(.blockedThreads(reason: String(cString: strerror(-file)))) }
      clinux_task_close(file)
      if observer_capture_disturbs() { found.append(.signalsAtOnce) }
      switch clinux_memory_way() {
      case CLINUX_MEMORY_BY_PIPE: found.append(.unknownStacks)
      case CLINUX_MEMORY_BY_CALL, CLINUX_MEMORY_BY_FILE: found.append(.readingWaits)
      default: break
      }
      let tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      if tasks >= 0 { close(tasks) } else { found.append(.otherThreads(reason: String(cString: strerror(errno)))) }
      if !cunwind_library_is_private() { found.append(.sharedUnwinder) }
      if !observer_capture_handler_is_ours() { found.append(.handlerReplaced) }
      return found
    }
  }
}

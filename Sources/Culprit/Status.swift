import CCulpritLinux
import CCulpritObserver
import CulpritReports
import CulpritStallRecord
import Glibc

extension Watchdog {
  /// The state of a watchdog.
  public struct Status: Sendable {
    /// Whether it watches.
    public var mode: Mode
    /// How many ticks the monitor has had.
    public var wakeups: UInt64
    /// What hangs now: work items that are past their hang threshold and had not ended at the monitor's last tick.
    public var hanging: [Hang]
    /// How many stacks the signal handler has copied in this process, those that check the set-up included.
    public var captures: UInt64
    /// How many threads answered after their request had been given up.
    public var lateAnswers: UInt64
    /// How many calls of handlers were dropped, because naming or handlers could not keep up.
    public var reportsDropped: UInt64
    /// What was sent to systemd; `nil` when nothing is.
    public var systemd: SystemdState?
    /// Sentences about what is wrong: what could not be saved and why (the first sixteen), values in the environment
    /// and the configuration file that are invalid, settings in which a second watchdog differs from the first.
    public var problems: [String]
    /// What cannot be observed in this process; empty where everything can.
    public var limitations: [Limitation]

    /// That of a watchdog of which nothing runs.
    init(_ mode: Mode, problems: [String]) {
      (self.mode, wakeups, hanging, captures, lateAnswers, reportsDropped) = (mode, 0, [], 0, 0, 0)
      (systemd, self.problems, limitations) = (nil, problems, [])
    }

    /// That of `core`, where `problems` are told already.
    init(_ core: Core, problems: [String]) {
      mode = core.live.current.isEnabled ? .watching : .switchedOff
      wakeups = observer_control_wakeups(core.control.pointer)
      hanging = Hang.found(core.control)
      captures = observer_capture_answered()
      lateAnswers = observer_capture_late()
      reportsDropped = core.reporter.dropped + core.activities.dropped
      systemd = core.policies.systemdState
      let disk = core.box?.presentProblem.map { [$0] } ?? []
      self.problems = core.problems.all + disk + problems + core.policies.problems
      limitations = Limitation.found(core.samplers)
    }
  }

  /// A source whose work item hangs.
  public struct Hang: Hashable, Sendable {
    /// The source.
    public var source: StallReport.Source
    /// The age of its work item.
    public var age: Duration
    /// The thread that works on it; 0 if it is not known.
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
        found.append(
          Hang(source: StallReport.Source(source), age: Duration(wholeNanoseconds: view.age_ns), threadID: view.tid)
        )
      }
      return found
    }
  }

  /// Whether a watchdog watches. A newer version may have more.
  public struct Mode: ReportCode {
    /// The value as a string, as in JSON.
    public var rawValue: String
    /// The value with this string, known or not.
    public init(rawValue: String) { self.rawValue = rawValue }
    /// It watches.
    public static let watching = Mode(rawValue: "watching")
    /// It is switched off, and can be switched on.
    public static let switchedOff = Mode(rawValue: "switchedOff")
    /// It has been stopped. Other watchdogs of the process may go on.
    public static let stopped = Mode(rawValue: "stopped")
    /// Nothing runs and nothing is watched: the environment switched it off at the start (`CULPRIT_ENABLED=no`), or
    /// this is a child of the watched process.
    public static let disabled = Mode(rawValue: "disabled")
  }

  /// Something that cannot be observed in this process, because it or its sandbox lacks something: a code for programs
  /// and a sentence for people.
  public struct Limitation: Hashable, Sendable, CustomStringConvertible {
    /// What is lost. A newer version may have more.
    public struct Code: ReportCode {
      /// The value as a string, as in JSON.
      public var rawValue: String
      /// The value with this string, known or not.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// Stacks of blocked threads are missing: the kernel does not tell what threads do. Computing threads are
      /// captured all the same.
      public static let blockedThreads = Code(rawValue: "blockedThreads")
      /// Timers on a thread's processor time were refused when the watchdog started. Computing threads are sent the
      /// signal at once: a system call that the thread enters in just that moment can return early.
      public static let signalsAtOnce = Code(rawValue: "signalsAtOnce")
      /// Memory is read through a pipe. For computing threads, stacks of coroutines and of handlers on alternate stacks
      /// are missing: their extent is not known.
      public static let unknownStacks = Code(rawValue: "unknownStacks")
      /// The list of the process's threads cannot be read: a stall's record has no other threads.
      public static let otherThreads = Code(rawValue: "otherThreads")
      /// libunwind could not be copied and is shared with the service: a thread of the service that is held up in it
      /// can hold up the sampler.
      public static let sharedUnwinder = Code(rawValue: "sharedUnwinder")
      /// libunwind is not installed: stacks are unwound by frame pointers and by what the code does, and end early in
      /// functions that have neither.
      public static let noUnwinder = Code(rawValue: "noUnwinder")
      /// Another handler has been installed for SIGPROF: computing threads cannot be captured.
      public static let handlerReplaced = Code(rawValue: "handlerReplaced")
      /// The kernel holds up samplers. While it holds up all of them, no stack is taken; stalls are noticed, timed and
      /// acted on all the same.
      public static let samplersHeldUp = Code(rawValue: "samplersHeldUp")
      /// Memory is read by process_vm_readv or /proc/self/mem, which can wait for a lock in the kernel: a stall in
      /// which a page fault is not answered may have no stacks.
      public static let readingWaits = Code(rawValue: "readingWaits")
      /// Culprit does nothing on this platform.
      public static let platform = Code(rawValue: "platform")
    }

    /// What is lost.
    public var code: Code
    /// What is lost and why: a sentence without a full stop.
    public var description: String

    private init(_ code: Code, _ description: String) {
      self.code = code
      self.description = description
    }

    static func blockedThreads(_ error: Int32) -> Limitation {
      let why = "because /proc/self/task/TID/syscall cannot be opened: \(String(cString: strerror(error)))"
      return Limitation(.blockedThreads, "stacks of blocked threads cannot be read, \(why)")
    }
    static let signalsAtOnce = Limitation(
      .signalsAtOnce,
      "a system call can return early when its thread enters it just when it is captured, because timer_create is refused"
    )
    static let unknownStacks = Limitation(
      .unknownStacks,
      "coroutine and alternate stacks cannot be read: memfd_create, process_vm_readv and /proc/self/mem are refused"
    )
    static func otherThreads(_ error: Int32) -> Limitation {
      let why = "because /proc/self/task cannot be read: \(String(cString: strerror(error)))"
      return Limitation(.otherThreads, "the other threads are missing in reports, \(why)")
    }
    static let sharedUnwinder = Limitation(
      .sharedUnwinder,
      "libunwind is shared with the service, because neither a copy of it nor another namespace can be loaded"
    )
    static func noUnwinder(_ why: String) -> Limitation {
      Limitation(
        .noUnwinder,
        "stacks end early in functions without a frame pointer, because libunwind cannot be used: \(printable(why))"
      )
    }
    static let handlerReplaced = Limitation(
      .handlerReplaced,
      "stacks of computing threads cannot be captured, because another handler has been installed for SIGPROF"
    )
    static func samplersHeldUp(_ held: Int, of all: Int) -> Limitation {
      let what =
        if all == 0 {
          "no stacks are taken: the threads of an earlier watchdog that take them have not ended; stalls are noticed all the same"
        } else if held < all {
          "the kernel holds up \(held) of the \(all) threads that can take stacks"
        } else {
          "no stacks are taken: the kernel holds up every thread that can, \(held) in all; stalls are noticed all the same"
        }
      return Limitation(.samplersHeldUp, what)
    }
    static let readingWaits = Limitation(
      .readingWaits,
      "a stall in which a page fault is not answered may have no stacks, because no file in memory (memfd_create) can be used"
    )

    /// What is lost here and now.
    static func found(_ samplers: SamplerPool) -> [Limitation] {
      var found: [Limitation] = []
      let (held, all) = samplers.heldUp
      if held > 0 || all == 0 { found.append(.samplersHeldUp(held, of: all)) }
      let look = clinux_task_open_syscall(clinux_task_self())
      if look < 0 { found.append(.blockedThreads(-look)) }
      clinux_task_close(look)
      if observer_capture_disturbs() { found.append(.signalsAtOnce) }
      switch clinux_memory_way() {
      case CLINUX_MEMORY_BY_PIPE: found.append(.unknownStacks)
      case CLINUX_MEMORY_BY_CALL, CLINUX_MEMORY_BY_FILE: found.append(.readingWaits)
      default: break
      }
      let tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
      if tasks >= 0 { close(tasks) } else { found.append(.otherThreads(errno)) }
      if let why = cunwind_missing_library() {
        found.append(.noUnwinder(String(cString: why)))
      } else if !cunwind_library_is_private() {
        found.append(.sharedUnwinder)
      }
      if !observer_capture_handler_is_ours() { found.append(.handlerReplaced) }
      return found
    }
  }
}

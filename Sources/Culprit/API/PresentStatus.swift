import CCulpritLinux
import CCulpritObserver
import CulpritReports
import CulpritStallRecord
import Glibc

extension Watchdog.Status {
  init(_ engine: Engine, problems: [String]) {
    mode = engine.live.current.isEnabled ? .watching : .switchedOff
    wakeups = observer_control_wakeups(engine.control.pointer)
    hanging = Watchdog.Hang.found(engine.control)
    captures = observer_capture_answered()
    lateAnswers = observer_capture_late()
    samplesSkipped = observer_sampling_spared(engine.samplers.sampling)
    reportsDropped = engine.reporter.dropped + engine.activities.dropped
    systemd = engine.lifecycle.systemdState
    let disks = [engine.box?.presentProblem, engine.metricsFile?.presentProblem].compactMap { $0 }
    let lost = observer_control_stalls_lost(engine.control.pointer)
    let losses = lost == 0 ? [] : ["\(lost) stalls have no report: they ended while the recorder was blocked"]
    self.problems = engine.problems.all + disks + losses + problems + engine.lifecycle.problems + engine.prober.problems
    limitations = Watchdog.Limitation.found(engine.samplers)
    if engine.poolWatcher.hasFailed { limitations.append(.poolThreads) }
    if TaskProbe.shared.hasFailed { limitations.append(.tasks) }
    if let refusal = engine.poolWatcher.watchpointRefusal {
      limitations.append(.computingJobs(refusal.error, exceptOnActors: refusal.countsEnqueues))
    }
  }
}

extension Watchdog.Hang {
  static func found(_ control: ControlBlock) -> [Self] {
    guard let stalls = observer_stall_table().map(StallTable.init) else { return [] }
    let delay = observer_control_hang_delay_ns(control.pointer)
    var found: [Self] = []
    for index in 0..<Int(observer_control_slots_used(control.pointer)) {
      let view = stalls[index].read()
      let (limit, overflow) = view.threshold_ns.addingReportingOverflow(delay)
      guard view.item != 0, !overflow, view.age_ns >= limit, let source = SlotRegistry.shared.source(index) else {
        continue
      }
      found.append(
        Self(source: StallReport.Source(source), age: Duration(wholeNanoseconds: view.age_ns), threadID: view.tid)
      )
    }
    return found
  }
}

extension Watchdog.Limitation {
  static func blockedThreads(_ error: Int32) -> Self {
    let why = "because /proc/self/task/TID/syscall cannot be opened: \(String(cString: strerror(error)))"
    return Self(.blockedThreads, "stacks of blocked threads cannot be read, \(why)")
  }
  static let signalsAtOnce = Self(
    .signalsAtOnce,
    "a system call can return early if its thread is captured on entry, because timer_create is refused"
  )
  static let computingThreads = Self(
    .computingThreads,
    "stacks of computing threads cannot be captured at present, because timer_create is refused: RLIMIT_SIGPENDING might be used up"
  )
  static let unknownStacks = Self(
    .unknownStacks,
    "coroutine and alternate stacks cannot be read: memfd_create, process_vm_readv and /proc/self/mem are refused"
  )
  static func otherThreads(_ error: Int32) -> Self {
    let why = "because /proc/self/task cannot be read: \(String(cString: strerror(error)))"
    return Self(.otherThreads, "the other threads are missing in reports, \(why)")
  }
  static let handlerReplaced = Self(
    .handlerReplaced,
    "stacks of computing threads cannot be captured, because another handler has been installed for SIGPROF"
  )
  static func samplersHeldUp(_ held: Int, of all: Int) -> Self {
    let what =
      if all == 0 {
        "no stacks are captured: the samplers of an earlier watchdog have not ended; stalls are still detected"
      } else if held < all {
        "the kernel blocks \(held) of \(all) samplers"
      } else {
        "no stacks are captured: the kernel blocks all \(held) samplers; stalls are still detected"
      }
    return Self(.samplersHeldUp, what)
  }
  static func computingJobs(_ error: Int32, exceptOnActors countsOthers: Bool) -> Self {
    let why =
      clinux_calls_are_filtered()
      ? "because a seccomp filter is active, which might kill the process for perf_event_open"
      : "because perf_event_open is refused: \(String(cString: strerror(error)))"
    let jobs = countsOthers ? "a job on an actor or after Task.yield()" : "a job"
    return Self(
      .computingJobs,
      "\(jobs) that computes for too long is noticed only if jobs occupy all threads of the pool, \(why)"
    )
  }
  static let poolThreads = Self(
    .poolThreads,
    "pool stalls are judged by one sample at their declaration: unknown layout of tasks in this Swift runtime"
  )
  static let tasks = Self(
    .tasks,
    "awaiting tasks are not shown, and tasks are not followed: unknown layout of tasks in this Swift runtime"
  )
  static let readingWaits = Self(
    .readingWaits,
    "stalls in a blocked page fault might have no stacks, because memfd_create is refused"
  )

  /// The limitations at this moment.
  static func found(_ samplers: SamplerPool) -> [Self] {
    var found: [Self] = []
    let (held, all) = samplers.heldUp
    if held > 0 || all == 0, !samplers.isStopping { found.append(.samplersHeldUp(held, of: all)) }
    var file = clinux_task_open_file(clinux_task_self(), "/syscall")
    if file.number < 0 { found.append(.blockedThreads(-file.number)) }
    clinux_descriptor_close(&file)
    if observer_capture_disturbs() {
      found.append(.signalsAtOnce)
    } else if !observer_signal_timers_work() {
      found.append(.computingThreads)
    }
    switch clinux_memory_way() {
    case CLINUX_MEMORY_BY_PIPE: found.append(.unknownStacks)
    case CLINUX_MEMORY_BY_CALL, CLINUX_MEMORY_BY_FILE: found.append(.readingWaits)
    default: break
    }
    let tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if tasks < 0 { found.append(.otherThreads(errno)) }
    var kept = clinux_descriptor_keep(tasks)
    clinux_descriptor_close(&kept)
    if !observer_capture_handler_is_ours() { found.append(.handlerReplaced) }
    return found
  }
}

import Culprit
import Dispatch
import Glibc
import Programs
import Synchronization
import TestWorkloads

/// A way to stall.
enum Scenario: String {
  /// Inside malloc, with the allocator's lock held.
  case malloc
  /// Inside malloc on another thread, with the lock of the allocator's second arena held.
  case arena
  /// In the runtime's code that instantiates generic types, at a random point.
  case metadata
  /// In the initializer of a library that is being opened, with the loader's lock held.
  case initializer
  /// In a callback of dl_iterate_phdr, with the lock of the loader's list held.
  case modules
  /// With stdout and stderr locked.
  case stdio
  /// In the initializer of a global variable, while another watched thread waits for the variable.
  case once
  /// In the unwinder, throwing exceptions.
  case exceptions
  /// In a library that is closed before the stall exceeds the threshold.
  case plugin
  /// Anywhere, while a signal or a control-group freezer stops the process for three seconds.
  case stopped
  case frozen
  case frozen2
  /// In a system call that the kernel restarts after a stop of the process, before the first sample or later.
  case restartedSleep = "restarted-sleep"
  case restartedPoll = "restarted-poll"
  /// Anywhere, in a process with a CPU quota below one CPU.
  case quota
  /// Anywhere, in a process that a debugger has attached to.
  case traced
  /// On every thread of Swift's pool: in many short tasks, or in one task per thread that calls several functions in
  /// turn.
  case tasks
  case inTurn = "in-turn"
  /// On one thread of Swift's pool while the other threads are idle, also after a yield; or in tasks that yield often.
  case oneJob = "one-job"
  case afterYield = "after-yield"
  case pauses
  /// On all threads that run tasks of one priority, while tasks of another priority run in short turns.
  case besideOthers = "beside-others"
  /// On one thread of Swift's pool, until after the end of the watch.
  case letGo = "let-go"
  /// Anywhere, while every thread of Dispatch and of Swift Concurrency is blocked.
  case pools

  /// Longer for exceptions, because samples of a computing thread can be late on a busy machine.
  var threshold: Duration { self == .exceptions ? .seconds(1) : .milliseconds(400) }

  var interval: Duration { self == .exceptions ? .milliseconds(10) : .milliseconds(50) }

  func run(on stage: Stage, library: String) throws {
    switch self {
    case .malloc: try stage.turn(against: workload_need_malloc) { say("inside=\(workload_hold_in_malloc())") }
    case .arena: try runInArena(on: stage)
    case .metadata: try runInMetadata(on: stage)
    case .initializer:
      try stage.turn(against: workload_need_loader) { say("inside=\(workload_hold_in_initializer(library))") }
    case .modules: try stage.turn(against: workload_need_module_list) { workload_hold_in_module_list() }
    case .stdio: try stage.turn(against: workload_need_stdio) { workload_hold_stdio() }
    case .once: try runOnce(on: stage)
    case .exceptions:
      try stage.turn("main") {
        say("caught=\(workload_throw_and_catch(3_000_000_000))")
      }
    case .plugin: try stage.turn("main") { say("inside=\(workload_hold_in_plugin(library))") }
    case .stopped: try runStopped(on: stage, WORKLOAD_STOP_BY_SIGNAL)
    case .frozen: try runStopped(on: stage, WORKLOAD_STOP_BY_FREEZER)
    case .frozen2: try runStopped(on: stage, WORKLOAD_STOP_BY_FREEZER2)
    case .pools: try runPools(on: stage)
    case .restartedSleep: try runRestarted(on: stage) { workload_sleep(2_500_000_000) }
    case .restartedPoll: try runRestarted(on: stage) { workload_poll(2_500_000_000) }
    case .quota:
      // Measures CPU time, because other processes can delay the thread.
      try stage.turn("main") {
        while ownCPUTime() < .milliseconds(400) { workload_spin(workload_now_ns() + 20_000_000, nil) }
      }
    case .traced:
      say("tracer=\(workload_be_traced())")
      try stage.turn("main") {
        workload_rest(); workload_rest(); workload_rest()
      }
    case .tasks: try runTasks(on: stage)
    case .inTurn, .oneJob, .afterYield: try runInTurn(on: stage)
    case .besideOthers:
      for _ in 0..<max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) {
        Task.detached(priority: .background) { await takeTurns() }
      }
      try runInTurn(on: stage)
    case .pauses: try runWithPauses(on: stage)
    case .letGo: try runLetGo(on: stage)
    }
  }

  private func ownCPUTime() -> Duration {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }

  private func runInArena(on stage: Stage) throws {
    let other = workload_thread_start(
      { stage, _ in
        guard let stage else { return }
        // SAFETY: the stage is kept alive until this thread has been joined.
        let found = Unmanaged<Stage>.fromOpaque(stage).takeUnretainedValue()
        try? found.turn("main") { say("inside=\(workload_hold_in_malloc())") }
      },
      Unmanaged.passUnretained(stage).toOpaque()
    )
    workload_contend({ _ in }, nil)
    workload_thread_stop(other)
  }

  private func runOnce(on stage: Stage) throws {
    let second = workload_thread_start(
      { stage, _ in
        guard let stage else { return }
        workload_contend(
          { stage in
            guard let stage else { return }
            // SAFETY: the stage is kept alive until this thread has been joined.
            let found = Unmanaged<Stage>.fromOpaque(stage).takeUnretainedValue()
            try? found.turn("second") { say("second=\(awaitWhatIsSlowlyMade())") }
          },
          stage
        )
      },
      Unmanaged.passUnretained(stage).toOpaque()
    )
    try stage.turn("main") { say("first=\(useWhatIsSlowlyMade())") }
    workload_thread_stop(second)
    say("contended=\(workload_was_contended())")
  }

  private func runStopped(on stage: Stage, _ way: workload_stop) throws {
    workload_prepare_hold(5_000_000_000, CommandLine.arguments[2] == "computing")
    let contender = workload_thread_start({ _, _ in workload_contend({ _ in }, nil) }, nil)
    let stopped = workload_stop_process(way, 700_000_000, 3_000_000_000)
    say("possible=\(stopped != nil)")
    let began = workload_now_ns()
    try stage.turn("main") { workload_hold() }
    say("elapsed=\(workload_now_ns() - began)")
    workload_thread_stop(contender)
    while let stopped, stopped.pointee == 0 { usleep(10_000) }
    say("stopped=\(stopped?.pointee ?? 0)")
  }

  private func runRestarted(on stage: Stage, _ wait: () -> Void) throws {
    let before: UInt64 = CommandLine.arguments[2] == "early" ? 10_000_000 : 500_000_000
    let stopped = try stage.turn("main") {
      let stopped = workload_stop_process(WORKLOAD_STOP_ASLEEP, before, 300_000_000)
      wait()
      return stopped
    }
    while let stopped, stopped.pointee == 0 { usleep(10_000) }
    say("stopped=\(stopped?.pointee ?? 0)")
  }

  private func runPools(on stage: Stage) throws {
    let pools = BlockedPools(stage)
    // This thread contends for no lock. It only lets `workload_hold` return.
    let contender = workload_thread_start({ _, _ in workload_contend({ _ in }, nil) }, nil)
    try stage.turn("main") { workload_hold() }
    while !stage.hasReport(of: .loop) { usleep(10_000) }
    say("idle-workers=\(pools.idleWorkers)")
    pools.release()
    workload_thread_stop(contender)
  }
}

extension Scenario {
  fileprivate func runTasks(on stage: Stage) throws {
    let watch = try stage.watchdog.watchConcurrency()
    usleep(300_000)
    for _ in 0..<64 { Task.detached { occupyThePool() } }
    while occupied.load(ordering: .acquiring) < 64 { usleep(10_000) }
    while !stage.hasReport(of: .pool) { usleep(10_000) }
    watch.stop()
  }
}

extension Scenario {
  /// Runs tasks that call `fillTheCache`, the culprit, for 380 ms and then `servePages` for 150 ms.
  fileprivate func runInTurn(on stage: Stage) throws {
    let watch = try stage.watchdog.watchConcurrency()
    for limitation in stage.watchdog.status.limitations { say("limited=\(limitation)") }
    usleep(300_000)
    let isOneJob = self == .oneJob || self == .afterYield
    // Without watchpoints, a job after a yield is not noticed.
    let hasWatchpoints = !stage.watchdog.status.limitations.contains { $0.code == .computingJobs }
    var rounds = self == .afterYield && !hasWatchpoints ? 3 : Int.max
    while rounds > 0, !stage.hasReport(of: isOneJob ? .job : .pool) {
      rounds -= 1
      let tasks = DispatchGroup()
      for _ in 0..<(isOneJob ? 1 : max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))) {
        tasks.enter()
        Task.detached {
          if self == .afterYield { await Task.yield() }
          fillTheCache()
          servePages()
          tasks.leave()
        }
      }
      if self == .inTurn {
        usleep(50_000)
        for _ in 0..<10 {
          tasks.enter()
          Task.detached { tasks.leave() }
        }
      }
      tasks.wait()
      usleep(300_000)
    }
    watch.stop()
  }
}

extension Scenario {
  /// Runs tasks that compute for 2 s and yield every 5 ms: first one task, then one per thread, then one more.
  fileprivate func runWithPauses(on stage: Stage) throws {
    let watch = try stage.watchdog.watchConcurrency()
    usleep(300_000)
    let threads = max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
    for count in [1, threads, threads + 1] {
      let tasks = DispatchGroup()
      for _ in 0..<count {
        tasks.enter()
        Task.detached {
          let end = DispatchTime.now() + .seconds(2)
          var begin = DispatchTime.now()
          while begin < end {
            let pause = begin + .milliseconds(5)
            while DispatchTime.now() < pause {}
            await Task.yield()
            let next = DispatchTime.now()
            longestTurn.max(next.uptimeNanoseconds - begin.uptimeNanoseconds, ordering: .relaxed)
            begin = next
          }
          tasks.leave()
        }
      }
      tasks.wait()
    }
    // Other processes can delay the whole pool.
    let isHealthy = Duration.nanoseconds(longestTurn.load(ordering: .relaxed)) < threshold / 4
    say("healthy=\(isHealthy)")
    watch.stop()
  }
}

@inline(never)
func fillTheCache() {
  let end = DispatchTime.now() + .milliseconds(380)
  if isComputing { while DispatchTime.now() < end {} } else { usleep(380_000) }
}

@inline(never)
func servePages() {
  let end = DispatchTime.now() + .milliseconds(150)
  if isComputing { while DispatchTime.now() < end {} } else { usleep(150_000) }
}

@inline(never)
func takeTurns() async {
  while true {
    usleep(100_000)
    await Task.yield()
  }
}

/// The longest time between two turns of a task that yields, in nanoseconds.
private let longestTurn = Atomic<UInt64>(0)

private let isComputing = CommandLine.arguments[2] == "computing"

@inline(never)
func occupyThePool() {
  usleep(50_000)
  occupied.add(1, ordering: .releasing)
}

private let occupied = Atomic<Int>(0)

final class BlockedPools: Sendable {
  private static let qualities: [DispatchQoS.QoSClass] = [
    .userInteractive, .userInitiated, .default, .utility, .background,
  ]
  /// More blocks than a pool has threads.
  private static let blocksPerQueue = 300
  private static let taskCount = 64

  private let gate = DispatchSemaphore(value: 0)
  private let blocked = Atomic<Int>(0)
  private let witnesses = Atomic<Int>(0)
  private let sectionsEnded = Atomic<Int>(0)

  /// Blocks the pools. One thread of each kind is blocked in a section of `stage`.
  init(_ stage: Stage) {
    DispatchQueue.global().async { self.work(in: "worker", of: stage) }
    Task.detached { self.work(in: "task", of: stage) }
    while blocked.load(ordering: .acquiring) < 2 { usleep(1000) }
    for _ in 0..<Self.taskCount { Task.detached { self.block() } }
    for quality in Self.qualities {
      for _ in 0..<Self.blocksPerQueue { DispatchQueue.global(qos: quality).async { self.block() } }
    }
    var seen = -1
    while blocked.load(ordering: .acquiring) != seen {
      seen = blocked.load(ordering: .acquiring)
      usleep(500_000)
    }
    for quality in Self.qualities {
      DispatchQueue.global(qos: quality).async { self.witnesses.add(1, ordering: .relaxed) }
    }
    Task.detached { self.witnesses.add(1, ordering: .relaxed) }
  }

  /// The number of pools that still had an idle thread.
  var idleWorkers: Int { witnesses.load(ordering: .relaxed) }

  private func block() {
    blocked.add(1, ordering: .acquiringAndReleasing)
    waitInPool(gate)
  }

  private func work(in section: String, of stage: Stage) {
    stage.watchdog.withSection(section, threshold: .milliseconds(400)) { block() }
    sectionsEnded.add(1, ordering: .releasing)
  }

  func release() {
    for _ in 0..<Self.taskCount + 2 + Self.qualities.count * Self.blocksPerQueue { gate.signal() }
    while sectionsEnded.load(ordering: .acquiring) < 2 { usleep(1000) }
  }
}

@inline(never)
func waitInPool(_ gate: DispatchSemaphore) {
  gate.wait()
  waits.add(1, ordering: .relaxed)
}

private let waits = Atomic<Int>(0)

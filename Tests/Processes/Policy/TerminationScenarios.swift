import Culprit
import Dispatch
import Foundation
import Glibc
import Programs
import SimulatedClock
import StuckDisk
import Synchronization
import TestWorkloads

private let steps = Atomic<Int>(0)

@inline(never)
func computeForGood() {
  while steps.load(ordering: .relaxed) >= 0 { steps.add(1, ordering: .relaxed) }
}

@inline(never)
func waitForGood() {
  while steps.load(ordering: .relaxed) >= 0 { usleep(1_000_000) }
}

/// Gets stuck in a given way, and leaves a core file in a directory: `terminate WAY DIRECTORY`.
@Sendable func beTerminated(_ arguments: [String]) throws {
  guard arguments.count == 2 else { exit(2) }
  let way = arguments[0]
  chdir(arguments[1])
  if way == "malloc" { workload_use_arenas(1) }
  var limit = rlimit(rlim_cur: rlim_t.max, rlim_max: rlim_t.max)
  setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
  let isStuck = DispatchSemaphore(value: 0)
  // The excluded ways need real time: CPU shares are measured in real time, and simulated time stops while the kernel
  // blocks a thread of the watchdog.
  if !["asked", "malloc", "disk", "errors"].contains(way) {
    clock.begin()
    Thread.detachNewThread {
      isStuck.wait()
      while true { clock.block(for: .seconds(1)) }
    }
  }
  var configuration = Watchdog.Configuration(
    threshold: .milliseconds(200),
    interval: .milliseconds(50),
    directory: arguments[1]
  )
  configuration.lifecycle.terminateAfter = .milliseconds(600)
  let watchdog = try Watchdog(configuration)
  watchdog.onStall { report in
    say("report=\(report.culprit?.function.name ?? "nobody"), \(report.hasEnded ? "over" : "under way")")
    if way == "deaf" { clock.whileIdle { waitForGood() } }
  }
  prepare(way, watchdog)
  let loop = try watchdog.watchLoop(named: "http")
  @Sendable func stick(_ body: () -> Void) {
    say("stuck=\(stuck_disk_own_thread())")
    loop.withTurn {
      isStuck.signal()
      body()
    }
    say("ended=true")
  }
  switch way {
  case "computing", "caught", "asked": stick { computeForGood() }
  case "dispatch":
    // Threads of Dispatch block SIGABRT.
    DispatchQueue.global().async { stick { waitForGood() } }
    waitForGood()
  case "deafest":
    stick {
      var all = sigset_t()
      sigfillset(&all)
      pthread_sigmask(SIG_SETMASK, &all, nil)
      waitForGood()
    }
  case "blocked":
    stick {
      // The watchdog's signals must end the process although the thread blocks and ignores them.
      signal(SIGABRT, SIG_IGN)
      signal(SIGILL, SIG_IGN)
      var some = sigset_t()
      sigemptyset(&some)
      sigaddset(&some, SIGABRT)
      sigaddset(&some, SIGILL)
      pthread_sigmask(SIG_BLOCK, &some, nil)
      waitForGood()
    }
  case "malloc":
    workload_prepare_hold(1_000_000_000_000, true)
    stick { _ = workload_hold_in_malloc() }
  default: stick { waitForGood() }
  }
}

/// Gets stuck for 3 s, and vetoes the termination after 600 ms: `terminate-vetoed`.
@Sendable func vetoTheEnd(_ arguments: [String]) throws {
  clock.begin()
  var configuration = Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50))
  configuration.lifecycle.terminateAfter = .milliseconds(600)
  let watchdog = try Watchdog(configuration)
  watchdog.onStall { report in say("ended=\(report.hasEnded)") }
  watchdog.onTerminate { _ in
    say("vetoed=true")
    return .veto
  }
  let loop = try watchdog.watchLoop(named: "http")
  loop.withTurn { clock.block(for: .seconds(3)) }
  watchdog.stop(patience: .seconds(60))
}

/// Gets stuck ten times. The termination handler ends the section each time.
@Sendable func releaseWhatIsStuck(_ arguments: [String]) throws {
  clock.begin()
  var configuration = Watchdog.Configuration(threshold: .milliseconds(100), interval: .milliseconds(50))
  configuration.lifecycle.terminateAfter = .milliseconds(100)
  let watchdog = try Watchdog(configuration)
  watchdog.onStall { _ in }
  let released = Atomic<Int>(0)
  let stuck = Mutex<WatchedSection?>(nil)
  watchdog.onTerminate { _ in
    stuck.withLock { $0 }?.end()
    released.add(1, ordering: .sequentiallyConsistent)
    return .terminate
  }
  for round in 1...10 {
    let section = watchdog.beginSection("http", threshold: .milliseconds(100))
    stuck.withLock { $0 = section }
    clock.wait { released.load(ordering: .sequentiallyConsistent) == round }
  }
  watchdog.stop(patience: .seconds(10))
  say("released=\(released.load(ordering: .sequentiallyConsistent))")
}

/// Gets stuck for 1.5 s. Termination after 600 ms is configured when threads can no longer be started.
@Sendable func changeWithoutThreads(_ arguments: [String]) throws {
  clock.begin()
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50)))
  guard workload_refuse_call("clone"), workload_refuse_call("clone3") else {
    say("refused=false")
    exit(77)
  }
  try watchdog.reconfigure { $0.lifecycle.terminateAfter = .milliseconds(600) }
  let loop = try watchdog.watchLoop(named: "http")
  loop.withTurn { clock.block(for: .milliseconds(1500)) }
  watchdog.stop(patience: .seconds(10))
  say("ended=true")
}

private func prepare(_ way: String, _ watchdog: Watchdog) {
  switch way {
  case "asked":
    watchdog.onTerminate { request in
      say("source=\(request.source.kind.description) \(request.source.name)")
      say("thread=\(request.threadID)")
      say("threshold=\(request.threshold)")
      say("enough=\(request.elapsed >= request.threshold)")
      say("culprit=\(request.report?.culprit?.function.name ?? "nobody")")
      say("code=\(Watchdog.TerminationRequest.code)")
      let cpu = request.cpuTime
      say("machine=\((cpu.machineShare ?? 0) > 0 && cpu.cpuCount > 0 && cpu.elapsed >= .milliseconds(400))")
      say("reason=\(request.description)")
      return .terminate
    }
  case "silent":
    watchdog.onTerminate { _ in
      clock.whileIdle { waitForGood() }
      return .veto
    }
  case "memory": _ = workload_leave_memory(40 << 20)
  case "disk": stuck_disk_begin()
  case "errors": stuck_disk_begin_with_errors()
  case "pools":
    let busy = DispatchSemaphore(value: 0)
    for _ in 0..<200 {
      DispatchQueue.global().async {
        busy.signal()
        waitForGood()
      }
    }
    for _ in 0..<64 {
      Task.detached {
        busy.signal()
        waitForGood()
      }
    }
    for _ in 0..<2 * sysconf(Int32(_SC_NPROCESSORS_ONLN)) { busy.wait() }
  case "caught":
    // This handler must not be called: termination uses the default action.
    signal(SIGABRT) { _ in _exit(3) }
  default: break
  }
}

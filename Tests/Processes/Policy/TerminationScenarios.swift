import Culprit
import Dispatch
import Foundation
import Glibc
import StuckDisk
import Synchronization
import TestWorkloads

private let steps = Atomic<Int>(0)

/// Computes and never ends.
@inline(never)
func computeForGood() {
  while steps.load(ordering: .relaxed) >= 0 { steps.add(1, ordering: .relaxed) }
}

/// Waits and never ends.
@inline(never)
func waitForGood() {
  while steps.load(ordering: .relaxed) >= 0 { usleep(1_000_000) }
}

/// How many threads of other processes want a processor, most of the time.
private func othersComputing() -> Int {
  let counts = (0..<9).map { _ in
    usleep(10_000)
    // "0.55 0.91 1.08 3/204 4711", of which this thread is one of the 3.
    let words = (try? String(contentsOfFile: "/proc/loadavg", encoding: .utf8))?.split(separator: " ") ?? []
    return words.count > 3 ? (words[3].split(separator: "/").first.flatMap { Int($0) } ?? 1) - 1 : 0
  }
  return counts.sorted()[counts.count / 2]
}

/// Gets stuck in a given way, and leaves a core file in a directory.
@Sendable func beTerminated(_ arguments: [String]) throws {
  guard arguments.count == 2 else {
    say("usage: policy-process terminate WAY DIRECTORY")
    exit(2)
  }
  let way = arguments[0]
  chdir(arguments[1])
  if way == "malloc" { workload_use_one_arena() }
  var limit = rlimit(rlim_cur: rlim_t.max, rlim_max: rlim_t.max)
  setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &limit)
  var configuration = Watchdog.Configuration(
    threshold: .milliseconds(200),
    interval: .milliseconds(50),
    directory: arguments[1]
  )
  configuration.lifecycle.terminateAfter = .milliseconds(600)
  let watchdog = try Watchdog(configuration)
  watchdog.onStall { report in
    say("report=\(report.culprit?.function.name ?? "nobody"), \(report.hasEnded ? "over" : "under way")")
    if way == "deaf" { waitForGood() }
  }
  prepare(way, watchdog)
  let loop = try watchdog.watchLoop(named: "http")
  @Sendable func stick(_ body: () -> Void) {
    say("stuck=\(stuck_disk_own_thread())")
    loop.withTurn(body)
    say("ended=true")
  }
  switch way {
  case "waiting": stick { waitForGood() }
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
      // What is blocked or ignored is delivered all the same.
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
  case "handled": stick { while steps.load(ordering: .acquiring) >= 0 { usleep(1000) } }
  default: stick { computeForGood() }
  }
  // Those that survive.
  steps.store(0, ordering: .releasing)
  loop.withTurn { _ = usleep(300_000) }
  watchdog.stop(patience: .seconds(60))
}

/// Gets stuck ten times, and ends what is stuck in the handler that is asked before the end.
@Sendable func releaseWhatIsStuck(_ arguments: [String]) throws {
  var configuration = Watchdog.Configuration(threshold: .milliseconds(100), interval: .milliseconds(50))
  configuration.lifecycle.terminateAfter = .milliseconds(100)
  let watchdog = try Watchdog(configuration)
  watchdog.onStall { _ in }
  let released = Atomic<Int>(0)
  let ended = Atomic<Int>(0)
  watchdog.onTerminate { _ in
    let round = released.add(1, ordering: .sequentiallyConsistent).newValue
    while ended.load(ordering: .sequentiallyConsistent) < round {}
    return .terminate
  }
  let loop = try watchdog.watchLoop(named: "http")
  for round in 1...10 {
    loop.withTurn { while released.load(ordering: .sequentiallyConsistent) < round { usleep(100) } }
    ended.store(round, ordering: .sequentiallyConsistent)
    // The next one is another work item, also for a clock that is coarse.
    usleep(500_000)
  }
  watchdog.stop()
  say("released=\(released.load(ordering: .sequentiallyConsistent))")
}

/// Asks to be ended when it is stuck, at a time when no thread can be started any more, and gets stuck for a while.
@Sendable func changeWithoutThreads(_ arguments: [String]) throws {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50)))
  guard workload_refuse_call("clone"), workload_refuse_call("clone3") else {
    say("refused=false")
    exit(77)
  }
  try watchdog.reconfigure { $0.lifecycle.terminateAfter = .milliseconds(600) }
  let loop = try watchdog.watchLoop(named: "http")
  loop.withTurn { _ = usleep(1_500_000) }
  watchdog.stop()
  say("ended=true")
}

/// What the application does about its end.
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
      let cpu = request.processorTime
      say("computing=\(cpu.user > .milliseconds(300) && (cpu.threadShare ?? 0) > 0.2)")
      say("machine=\((cpu.machineShare ?? 0) > 0 && cpu.processors > 0 && cpu.elapsed >= .milliseconds(400))")
      say("reason=\(request.description)")
      return .terminate
    }
  case "handled":
    watchdog.onTerminate { _ in
      // Ends its work, or the next look would find it stuck still: what is handled stays handled.
      DispatchQueue.global().asyncAfter(deadline: .now() + .seconds(2)) { steps.store(-1, ordering: .releasing) }
      return .veto
    }
  case "silent":
    watchdog.onTerminate { _ in
      waitForGood()
      return .veto
    }
  case "memory": _ = workload_leave_memory(40 << 20)
  case "disk": stuck_disk_begin()
  case "errors": stuck_disk_begin_with_errors()
  case "pools":
    for _ in 0..<200 { DispatchQueue.global().async { waitForGood() } }
    for _ in 0..<64 { Task.detached { waitForGood() } }
    usleep(300_000)
  case "starved":
    // Naming has a fifth of a processor: others who compute have their part in that.
    for _ in 0..<max(0, 5 * sysconf(Int32(_SC_NPROCESSORS_ONLN)) - othersComputing()) {
      Thread.detachNewThread { computeForGood() }
    }
  case "caught":
    // Its handler does not come first: the default action does.
    signal(SIGABRT) { _ in _exit(3) }
  default: break
  }
}

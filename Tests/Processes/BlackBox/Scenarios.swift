import Culprit
import CulpritBlackBox
import CulpritBlame
import CulpritStallRecord
import Dispatch
import Glibc
import Programs
import Synchronization
import TestWorkloads

let scenarios: [String: @Sendable (Watchdog) throws -> Void] = [
  "turn": { try turn($0, until: { false }) },
  "work": work,
  "stall": { try stall($0) { holdUp { false } } },
  "recover": { watchdog in
    try stall(watchdog) {
      let end = ContinuousClock.now + .milliseconds(600)
      holdUp { ContinuousClock.now >= end }
    }
    stopCompletely(watchdog)
  },
  "parts": { watchdog in
    try stall(watchdog) {
      let begin = ContinuousClock.now
      holdUp { ContinuousClock.now >= begin + .milliseconds(1600) }
      linger { ContinuousClock.now >= begin + .milliseconds(2000) }
    }
    stopCompletely(watchdog)
  },
  // A hanging shutdown. The test kills the process after the watchdog has stopped.
  "stop-hanging": { watchdog in
    let isHang = Atomic<Bool>(false)
    watchdog.onHang { _ in isHang.store(true, ordering: .releasing) }
    try stall(watchdog) {
      holdUp { isHang.load(ordering: .acquiring) }
      stopCompletely(watchdog)
      holdUp { false }
    }
  },
  "report": reportPreviousRuns,
  "stop": { $0.stop() },
  "chroot": { watchdog in
    let root = CommandLine.arguments[3]
    guard chroot(root) == 0, chdir("/") == 0 else { exit(77) }
    try stall(watchdog) {
      let end = ContinuousClock.now + .milliseconds(600)
      holdUp { ContinuousClock.now >= end }
    }
    stopCompletely(watchdog)
  },
  // Changes the program's file between the first sample and the declaration. The argument is the kind of change.
  "change-program": { watchdog in
    watchdog.onStall { say("\($0)") }
    try stall(watchdog) {
      let begin = ContinuousClock.now
      holdUp { ContinuousClock.now >= begin + .milliseconds(500) }
      changeProgram(CommandLine.arguments[3])
      holdUp { ContinuousClock.now >= begin + .milliseconds(2500) }
    }
    stopCompletely(watchdog)
  },
  "exit": { _ in exit(3) },
  "exit-stalled": { try stall($0) { exit(0) } },
  "exit-in-malloc": { _ in workload_exit_in_malloc(3) },
  "die-in-malloc": { _ in workload_die_in_malloc(SIGSYS) },
  "leave-main": leaveMain,
  "_exit": { _ in _exit(3) },
  "abort": { _ in abort() },
  "fault": { _ in fault() },
  "fork": forkAndTurn,
  "start": startInMidStall,
  "exec": { _ in executeAgain() },
  "exec-stalled": execInMidStall,
  "out-of-memory": { _ in takeAllMemory() },
  "latency": measureLatency,
]

private func stopCompletely(_ watchdog: Watchdog) {
  while !watchdog.stop(patience: .seconds(60)) {}
}

private func turn(_ watchdog: Watchdog, until isOver: () -> Bool) throws {
  let loop = try watchdog.watchLoop(named: "main")
  say("turning=\(getpid())")
  while !isOver() {
    // A turn that slept could exceed the threshold on a busy machine.
    loop.withTurn {}
    usleep(2000)
  }
}

/// Runs turns of a loop, each for a quarter of the threshold, and prints every stall.
@Sendable private func work(_ watchdog: Watchdog) throws {
  watchdog.onStall { say("stall=\($0.duration.wholeNanoseconds)\n\($0)") }
  let loop = try watchdog.watchLoop(named: "main")
  say("turning=\(getpid())")
  while true { loop.withTurn { _ = usleep(50_000) } }
}

private func stall(_ watchdog: Watchdog, _ body: () -> Void) throws {
  let loop = try watchdog.watchLoop(named: "main")
  loop.withTurn {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC, &now)
    say("stalled=\(now.tv_sec * 1_000_000_000 + now.tv_nsec)")
    body()
  }
}

/// The expected culprit.
@inline(never)
func holdUp(_ isOver: () -> Bool) {
  while !isOver() { usleep(20_000) }
}

/// Runs after the culprit, for a shorter time.
@inline(never)
func linger(_ isOver: () -> Bool) {
  while !isOver() { usleep(10_000) }
}

/// Deletes or renames this program's file, or replaces it by the file with the suffix `.new`.
private func changeProgram(_ change: String) {
  let path = CommandLine.arguments[0]
  switch change {
  case "deleted": unlink(path)
  case "renamed": rename(path, path + ".old")
  default: rename(path + ".new", path)
  }
}

@Sendable private func reportPreviousRuns(_ watchdog: Watchdog) {
  let reported = DispatchSemaphore(value: 0)
  watchdog.onPreviousRun { run in
    defer { reported.signal() }
    say("run=\(run.processID) \(run.endingText)")
    if let signal = run.signal { say("signal=\(signal)") }
    for hang in run.hangs {
      let report = hang.report
      let culprit = report.culprit?.function.name ?? "nobody"
      let others = report.otherThreads?.count ?? 0
      say(
        "hang=\(report.source.name) \(culprit) \(report.duration.wholeNanoseconds) \(hang.lastStacks.count) \(others)"
      )
      say("lost=\(report.evidence.lostCount)")
      say("samples=\(report.samples.count)")
    }
    if CommandLine.arguments.contains("--text") { say(run.description) }
  }
  // A `stop()` that times out on a slow disk leaves the remaining runs to the next launch.
  let runs = CommandLine.arguments.firstIndex(of: "--runs").flatMap { Int(CommandLine.arguments[$0 + 1]) } ?? 0
  for _ in 0..<runs { reported.wait() }
  stopCompletely(watchdog)
  for problem in watchdog.status.problems { say("problem=\(problem)") }
  if CommandLine.arguments.contains("--peak") { say("peak=\(peakOfMemory())") }
}

/// The peak memory of this process in KiB.
private func peakOfMemory() -> Int {
  let line = readFile("/proc/self/status").split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
  return line.flatMap { Int($0.filter(\.isNumber)) } ?? -1
}

/// Ends the main thread, which is a zombie until the process ends.
@Sendable private func leaveMain(_ watchdog: Watchdog) {
  startThread { while true { usleep(100_000) } }
  withExtendedLifetime(watchdog) { pthread_exit(nil) }
}

private func fault() {
  // SAFETY: none. The access faults on purpose.
  UnsafeMutablePointer<Int>(bitPattern: 8)?.pointee = 1
}

/// Forks children that exit, crash, or leave a sleeping process that outlives this one.
@Sendable private func forkAndTurn(_ watchdog: Watchdog) throws {
  say("child=\(workload_fork { exit(7) })")
  say("child=\(workload_fork { fault(); return 0 })")
  say("child=\(workload_fork { workload_fork_and_leave() })")
  close(open("\(CommandLine.arguments[1])/turning", O_WRONLY | O_CREAT, 0o600))
  try turn(watchdog, until: { false })
}

private var rest: [String] { Array(CommandLine.arguments.dropFirst(3)) }

/// `words` as C strings with a final NULL. Never freed.
private func cArguments(_ words: [String]) -> [UnsafeMutablePointer<CChar>?] { words.map { strdup($0) } + [nil] }

/// Whether the directory has a stall file with content. A file gets its final name first.
private func hasStall() -> Bool {
  let box = BlackBoxDirectory(path: CommandLine.arguments[1])
  let names = try? box.names([".stall"])
  return names?.contains { box.stall($0)?.recording.stalls.isEmpty == false } == true
}

/// Stalls, and then starts a program in a child: `start WAY PROGRAM ARGUMENT…`. Writes the child's process id to the
/// file `child` in the directory.
@Sendable private func startInMidStall(_ watchdog: Watchdog) throws {
  startThread {
    while !hasStall() { usleep(10_000) }
    let child = workload_start(rest[0], rest[1], cArguments(Array(rest.dropFirst())))
    let path = "\(CommandLine.arguments[1])/child"
    let descriptor = open(path + ".new", O_WRONLY | O_CREAT | O_CLOEXEC, 0o600)
    let text = Array("\(child)".utf8)
    _ = write(descriptor, text, text.count)
    close(descriptor)
    rename(path + ".new", path)
  }
  try stall(watchdog) { holdUp { false } }
}

/// Executes this program again in this process: `exec SCENARIO`.
private func executeAgain() {
  say("before=\(getpid())")
  execv("/proc/self/exe", cArguments([CommandLine.arguments[0], CommandLine.arguments[1]] + rest))
  say("error=\(errno)")
}

@Sendable private func execInMidStall(_ watchdog: Watchdog) throws {
  try stall(watchdog) {
    holdUp { hasStall() }
    executeAgain()
  }
}

private func takeAllMemory() {
  say("taking=\(getpid())")
  // The kernel writes the memory, because an optimizer would omit unread stores.
  let zeros = open("/dev/zero", O_RDONLY)
  while true {
    let size = 1 << 20
    guard let memory = malloc(size) else { continue }
    _ = read(zeros, memory, size)
  }
}

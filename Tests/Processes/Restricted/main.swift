import CCulpritLinux
import CCulpritObserver
import Culprit
import CulpritBlame
import CulpritStallRecord
import Dispatch
import Foundation
import Glibc
import Synchronization
import TestWorkloads

// Stalls twice, computing and asleep, under the restrictions given as arguments. Prints the watchdog's reports:
//
//   restricted-process [refuse:CALL | system-service | tasks | queue | little-memory | descriptors | undumpable | no-proc
//                       | no-pending | no-pending-later | profiler | fork | restarts | replaced | coroutine | one-arena
//                       | address-space:MIB]...

/// Computes for a second of wall time and half a second of CPU time: only a running thread handles signals.
@inline(never)
func computeForLong() {
  let end = ContinuousClock.now + .seconds(1)
  var value: UInt64 = 1
  var used = timespec()
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used)
  let enough = used.tv_sec * 1_000_000_000 + used.tv_nsec + 500_000_000
  // The system call is not in a helper function: samples often hit a returning call, and the helper would become the
  // culprit.
  while ContinuousClock.now < end || used.tv_sec * 1_000_000_000 + used.tv_nsec < enough {
    var round = 0
    while round < 100_000 {
      value = value &* 6_364_136_223_846_793_005 &+ 1
      round &+= 1
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used)
  }
  computed.store(value, ordering: .relaxed)
}

@inline(never)
func sleepForLong() {
  var time = timespec(tv_sec: 0, tv_nsec: 999_000_000)
  var left = timespec()
  while nanosleep(&time, &left) != 0 {
    wasInterrupted = true
    time = left
  }
  computed.wrappingAdd(1, ordering: .relaxed)
}

let computed = Atomic<UInt64>(0)
nonisolated(unsafe) var wasInterrupted = false

/// Returns a line for each of the two stalls, each limitation and each problem.
func describeStalls() throws -> [String] {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200)))
  nonisolated(unsafe) var lines: [String] = []
  watchdog.onStall { report in
    let captured = report.raw.stall.samples.filter { $0.outcome == .captured }
    let failures = Set(report.raw.stall.samples.map(\.outcome)).subtracting([.captured])
    if report.culprit == nil { FileHandle.standardError.write(Data("\(report)".utf8)) }
    // On a busy machine a few samples can fail.
    lines.append(
      "\(report.source.name): \(report.culprit?.function.name ?? "nobody"), "
        + (captured.isEmpty ? "nothing captured: \(failures.map { "\($0)" }.sorted())" : "captured")
    )
  }
  // Leaves enough memory for the service, but not for a report.
  if given.contains("little-memory") { _ = workload_leave_memory(40 << 20) }
  if given.contains("tasks") {
    _ = try watchdog.watchConcurrency()
    let isOver = DispatchSemaphore(value: 0)
    Task.detached {
      computeForLong()
      isOver.signal()
    }
    isOver.wait()
  }
  watchdog.withSection("computing", threshold: .milliseconds(200)) { computeForLong() }
  watchdog.withSection("asleep", threshold: .milliseconds(200)) { sleepForLong() }
  if given.contains("queue") {
    let queue = DispatchQueue(label: "stuck")
    let watch = try watchdog.watchQueue(queue)
    queue.sync { sleepForLong() }
    queue.sync { sleepForLong() }
    withExtendedLifetime(watch) {}
  }
  if given.contains("no-pending-later") { _ = workload_use_up_pending_signals() }
  let limitations = watchdog.status.limitations.map { "limitation: \($0)" }
  watchdog.stop(patience: .seconds(60))
  if given.contains("queue") { return lines + ["visits: \(observer_visits_under_way())"] }
  return lines + limitations + watchdog.status.problems.map { "problem: \($0)" }
}

/// Counts open descriptors. `/proc` and stat(2) might be refused.
func openDescriptors() -> Int { (0..<4096).count { fcntl(Int32($0), F_GETFD) >= 0 } }

nonisolated(unsafe) var parentsWatchdog: Watchdog?
nonisolated(unsafe) var impatientForks: UInt32 = 0

/// The exit status of a child that might have inherited locks of a working thread of the watchdog.
let inheritsLocks: Int32 = 5

/// Checks in a child that the parent's watchdog does nothing and that a new watchdog reports stalls.
func runChild() -> Int32 {
  // A child with inherited locks can hang in any function of the runtime (clinux_fork.h).
  guard clinux_fork_impatient_count() == impatientForks else { return inheritsLocks }
  guard let parents = parentsWatchdog else { return 2 }
  do {
    _ = try parents.watchLoop(named: "in the child")
    return 3
  } catch {
    guard error.code == .notInThisProcess, error.limit == Int(getppid()) else { return 4 }
  }
  // Stopping must not wait for the parent's threads.
  parents.withSection("in the child", threshold: .milliseconds(10)) { _ = computed.wrappingAdd(1, ordering: .relaxed) }
  parents.stop()
  parentsWatchdog = nil
  do {
    for line in try describeStalls() { print("child: \(line)") }
  } catch {
    print("child: \(error)")
  }
  fflush(nil)
  return 0
}

/// The locked memory of the process in KiB.
func lockedMemory() -> Int {
  let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
  let line = status.split(separator: "\n").first { $0.hasPrefix("VmLck:") }
  return line.flatMap { Int($0.filter(\.isNumber)) } ?? 0
}

/// The memory that a new watchdog locks, in KiB.
func lockedByWatchdog() throws -> Int {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200)))
  defer { watchdog.stop(patience: .seconds(10)) }
  return lockedMemory()
}

// Raises the priority where permitted, against delays on busy machines.
setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, -10)

let given = Set(CommandLine.arguments.dropFirst())
var startsOnly = false
for argument in CommandLine.arguments.dropFirst() {
  let isDone: Bool
  switch argument {
  case "system-service": isDone = workload_be_killed_for_calls()
  case "undumpable": isDone = workload_become_undumpable()
  case "no-proc": isDone = workload_hide_proc()
  case "no-pending": isDone = workload_use_up_pending_signals()
  case "one-arena":
    workload_use_arenas(1)
    isDone = true
  case "profiler":
    workload_start_profiler()
    isDone = true
  case let limit where limit.hasPrefix("address-space:"):
    startsOnly = true
    isDone = workload_leave_address_space(Int(limit.dropFirst(14)).map { $0 << 20 } ?? 0)
  case let call where call.hasPrefix("refuse:"): isDone = workload_refuse_call(String(call.dropFirst(7)))
  default:
    isDone = [
      "tasks", "queue", "restarts", "little-memory", "descriptors", "no-pending-later", "fork", "replaced", "coroutine",
    ].contains(argument)
  }
  if !isDone {
    print("not possible here: \(argument): \(String(cString: strerror(errno)))")
    exit(77)
  }
}
if startsOnly {
  do {
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200)))
    print("started")
    watchdog.stop(patience: .seconds(10))
  } catch {
    print("refused: \(error)")
  }
  exit(0)
}
_ = workload_thread_start({ @Sendable _, _ in while true { pause() } }, nil)

if given.contains("restarts") {
  // The usual RLIMIT_MEMLOCK of a service.
  var limit = rlimit(rlim_cur: 8 << 20, rlim_max: 8 << 20)
  setrlimit(__rlimit_resource_t(8 /* RLIMIT_MEMLOCK: its macro is not imported */), &limit)
  let first = try lockedByWatchdog()
  var last = first
  for _ in 0..<20 { last = try lockedByWatchdog() }
  print("first: \(first) KiB")
  print("last: \(last) KiB")
  print("child exited with \(workload_fork { (try? lockedByWatchdog()).map { Int32($0 / 32) } ?? 0 })")
} else if given.contains("coroutine") {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200)))
  watchdog.onStall { report in
    let captured = report.raw.stall.samples.count { $0.outcome == .captured }
    print("\(report.source.name): \(captured > 0 ? "captured" : "nothing captured")")
  }
  let loop = try watchdog.watchLoop(named: "coroutines")
  // Records the main thread's stack bounds. Then the heap grows, and a coroutine's stack is at the end of the heap.
  loop.withTurn { _ = computed.wrappingAdd(1, ordering: .relaxed) }
  for _ in 0..<64 { withExtendedLifetime(malloc(64 << 10)) {} }
  loop.withTurn { workload_spin_on_coroutine(64 << 10, workload_now_ns() + 1_500_000_000, nil) }
  watchdog.stop(patience: .seconds(60))
} else if given.contains("fork") {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200)))
  parentsWatchdog = watchdog
  watchdog.onStall { print("parent: \($0.source.name): \($0.culprit?.function.name ?? "nobody")") }
  let loop = try watchdog.watchLoop(named: "over the fork")
  // Forks during a stall, which only the parent continues.
  loop.begin()
  computeForLong()
  var status = inheritsLocks
  while status == inheritsLocks {
    impatientForks = clinux_fork_impatient_count()
    status = workload_fork { workload_call_on_thread(runChild) }
  }
  print("child exited with \(status)")
  loop.end()
  watchdog.stop(patience: .seconds(60))
} else if given.contains("replaced") {
  // A profiler replaces the handler of SIGPROF while a watchdog runs. The next watchdog installs its handler again and
  // forwards the profiler's signals.
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200)))
  workload_start_profiler()
  print("replaced: \(watchdog.status.limitations.map { "\($0)" })")
  watchdog.stop(patience: .seconds(10))
  let before = workload_profiled()
  for line in try describeStalls() { print(line) }
  print("profiled: \(workload_profiled() - before > 5 ? "many" : "\(workload_profiled() - before)")")
} else {
  let before = openDescriptors()
  for line in try describeStalls() { print(line) }
  // Some descriptors stay open after stop(), for late signals.
  let more = openDescriptors() - before
  if given.contains("descriptors") { print("descriptors: \(more < 16 ? "few" : "\(more)") more") }
  print("profiled: \(workload_profiled() > 5 ? "many" : "\(workload_profiled())")")
}
raise(SIGPROF)
print("interrupted: \(wasInterrupted)")

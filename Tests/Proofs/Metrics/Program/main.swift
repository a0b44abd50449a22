// A service that measures the delays of its loops, queues and sections, and compares them with the watchdog's metrics.
// Writes the metrics to FILE, and prints facts as `name=value`.
//
//   $ metrics-process FILE
//   loop.count=14
//   …

import Culprit
import Dispatch
import Glibc
import Programs
import SourceLoads
import Synchronization
import TestWorkloads

// SIGALRM ends a hanging process. The time is long, because the machine can be busy.
alarm(100)
guard CommandLine.arguments.count == 2 else {
  say("usage: metrics-process FILE")
  exit(2)
}

var configuration = Watchdog.Configuration(threshold: .milliseconds(400), hangThreshold: .milliseconds(600))
configuration.metrics.file = CommandLine.arguments[1]
configuration.metrics.labels = ["service": "metrics-process", "quoted": "a \"b\" \\c\n"]
let hostile = "orders \"7\"\n\\ \u{1b}[31m \r\n}"

extension Watchdog.Metrics {
  func source(_ name: String) -> Watchdog.SourceMetrics? { sources.first { $0.source.name == name } }
}

@Sendable func now() -> Duration {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
}

/// Sleeps in a section long enough for a stall, or a hang.
func stall(_ watchdog: Watchdog, _ name: String, milliseconds: UInt32) {
  watchdog.withSection(name, threshold: .milliseconds(100)) { _ = usleep(milliseconds * 1000) }
}

let began = now()
let watchdog = try Watchdog(configuration)
let reported = Mutex<[String: Duration]>([:])
let hangs = Mutex<[String: UInt64]>([:])
watchdog.onHang { event in hangs.withLock { $0[event.source.name, default: 0] += 1 } }
watchdog.onStall { report in reported.withLock { $0[report.source.name, default: .zero] += report.duration } }

// The wait of each probe as measured by the loop: slightly less than the watchdog measures.
let waits = Mutex<[Duration]>([])
let loop = ClosureLoop()
let loopWatch = try watchdog.watchLoop(named: "loop") { probe in
  let enqueued = now()
  loop.execute {
    let wait = now() - enqueued
    waits.withLock { $0.append(wait) }
    probe()
  }
}
let queueWatch = try watchdog.watchQueue(DispatchQueue(label: "queue"), named: hostile)
let poolWatch = try watchdog.watchConcurrency()

for _ in 0..<4 {
  loop.execute { usleep(120_000) }
  usleep(200_000)
}
// More sections than the metrics can list. All end in time, and must leave no series.
for number in 0..<5000 { watchdog.withSection("request \(number)", threshold: .seconds(4)) {} }
let late = try watchdog.watchLoop(named: "late")
stall(watchdog, "import", milliseconds: 450)
stall(watchdog, "import", milliseconds: 900)
// A stall must be counted when it begins, and its duration when it ends.
let isReported = Atomic<Bool>(false)
watchdog.onHang { event in if event.source.name == "export" { isReported.store(true, ordering: .relaxed) } }
watchdog.withSection("export", threshold: .milliseconds(100)) {
  while !isReported.load(ordering: .relaxed) { usleep(1000) }
  let found = watchdog.metrics.source("export")
  say("export.during=\(found?.stalls ?? 0) \(found?.hangs ?? 0) \(found?.stallDurations.count ?? 9)")
  say("export.age=\((found?.stallAge ?? .zero) >= .milliseconds(100))")
}
loopWatch.stop()
// Runs after all probes enqueued so far, so no measurement of the loop is pending.
loop.wait {}
watchdog.stop(patience: .seconds(60))
let metrics = watchdog.metrics
let elapsed = now() - began

if let found = metrics.source("loop"), let latencies = found.latencies {
  let own = waits.withLock { $0 }
  say("loop.count=\(latencies.count == UInt64(own.count) && own.count > 4)")
  say("loop.sum=\(latencies.sum >= own.reduce(.zero, +) && latencies.sum <= elapsed)")
  // The loop measures slightly less than the watchdog, so a bucket has at most the loop's count of probes.
  let areRight = latencies.buckets.allSatisfy { bucket in
    bucket.count <= UInt64(own.filter { $0 <= bucket.upperBound }.count)
  }
  let longer = own.filter { $0 > .milliseconds(25) }.count
  let within = latencies.buckets.first { $0.upperBound == .milliseconds(25) }?.count ?? .max
  say("loop.buckets=\(areRight) \(longer > 0 && latencies.count - within >= UInt64(longer))")
}
for name in ["import", "export"] {
  let found = metrics.source(name)
  let sum = reported.withLock { $0[name] }
  say("\(name)=\(found?.stalls ?? 0) \(found?.stallDurations.count ?? 0) \(found?.latencies == nil)")
  say("\(name).hangs=\(found?.hangs == hangs.withLock { $0[name] ?? 0 })")
  say("\(name).sum=\(found?.stallDurations.sum == sum)")
  say("\(name).samples=\((found?.samples ?? 0) > 0)")
}
say("late=\(metrics.source("late").map { "\($0.stalls) \($0.watchedCount)" } ?? "nil")")
say("requests=\(metrics.sources.filter { $0.source.name.hasPrefix("request") }.count)")
say("sources=\(Set(metrics.sources.map(\.source)).count == metrics.sources.count)")
say("others=\(metrics.source("others").map { "\($0.stalls)" } ?? "none")")
say("own=\(metrics.ownCost.cpuTime > .zero) \(metrics.ownCost.wakeups > 0)")
say("mode=\(metrics.mode)")

// A second watchdog must continue the counts of the first.
let second = try Watchdog(configuration)
stall(second, "import", milliseconds: 450)
second.stop(patience: .seconds(60))
let after = second.metrics
say("again=\(after.source("import")?.stalls ?? 0) \(after.ownCost.wakeups >= metrics.ownCost.wakeups)")

// A child's counts must begin at 0.
configuration.metrics.file = nil
let third = try Watchdog(configuration)
let child = workload_plain_fork()
if child == 0 {
  alarm(60)
  say("child.before=\(third.metrics.sources.count) \(third.metrics.mode)")
  if let own = try? Watchdog(configuration) {
    stall(own, "import", milliseconds: 450)
    own.stop(patience: .seconds(60))
    say("child.own=\(own.metrics.source("import")?.stalls ?? 0) \(own.metrics.sources.count)")
  }
  exit(0)
}
var status: Int32 = 0
waitpid(child, &status, 0)
say("child=\(status)")
third.stop()
say("end=\(third.metrics.source("import")?.stalls ?? 0)")

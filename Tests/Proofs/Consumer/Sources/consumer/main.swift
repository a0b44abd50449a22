// Uses every public type of Culprit through `import Culprit` alone. Prints the facts of a stall report, one per line.
import Blame
import CZlib
import CommandLineOptions
import Culprit
import Dispatch
import Reports
import Symbols

// Types of the service with names that Culprit also uses. The names must not conflict.
struct Configuration {}
struct Activity {}
struct Termination {}
struct Sample {}
struct Stack {}
struct Module {}
struct Share {}
struct Status {}
struct Frame {}
let own: [Any] = [
  Configuration(), Activity(), Termination(), Sample(), Stack(), Module(), Share(), Status(), Frame(),
  ReportsOfTheService(), SymbolsOfTheService(), BlameOfTheService(), CommandLineOptionsOfTheService(),
  czlib_of_the_service(),
]

final class Box<Value>: @unchecked Sendable {
  private let queue = DispatchQueue(label: "box")
  private var value: Value
  init(_ value: Value) { self.value = value }
  func set(_ new: Value) { queue.sync { value = new } }
  var current: Value { queue.sync { value } }
}

func describe(_ function: StallReport.Function) -> String {
  let place = function.location.map { location -> String in "\(location.fileName):\(location.line)" } ?? "no line"
  let address: StallReport.Address = function.address
  return "\(function.name) \(place) own=\(function.isOwn) \(address.kind == .file)"
}

func describe(_ report: StallReport) {
  let verdict: StallReport.Verdict = report.verdict
  print("verdict=\(verdict)")
  let source: StallReport.Source = report.source
  print("source=\(source) \(source.kind == .section)")
  let thread: StallReport.Thread = report.thread
  print("thread=\(thread.id != 0)")
  let began: StallReport.Timestamp = report.began
  print(
    "began=\(began.nanosecondsSince1970 > 0) threshold=\(report.threshold) long=\(report.duration > report.threshold)"
  )
  if let process: StallReport.Process = report.process { print("process=\(process.name)") }
  if let culprit: StallReport.Finding = report.culprit {
    print("culprit=\(describe(culprit.function))")
    print("share=\(culprit.share > 0.5) \(culprit.shareLow <= culprit.shareHigh) \(culprit.time > .zero)")
    if let use: StallReport.CPUUse = culprit.cpuUse { print("computing=\(use.share > 0.2)") }
    if let waiting: StallReport.Waiting = culprit.waiting { print("waiting=\(waiting.samples <= waiting.of)") }
  }
  let findings = [report.parts, report.callers, report.outerCallers, report.callees, report.contenders]
  print("findings=\(findings.allSatisfy { $0.allSatisfy { $0.share <= 1 } })")
  let nodes: [StallReport.Node] = report.tree
  print("tree=\(nodes.first.map { $0.share > 0.5 && $0.time >= $0.selfTime && !$0.children.isEmpty } ?? false)")
  let samples: [StallReport.Sample] = report.samples
  let activities: [StallReport.Activity] = samples.map { $0.activity }
  print(
    "samples=\(samples.count > 3 && samples.allSatisfy { $0.age > .zero }) \(activities.contains { $0.kind == .computing })"
  )
  let labels: [StallReport.Label] = report.labels
  let notes: [StallReport.Note] = report.notes
  print("labels=\(labels.map { $0.text }) context=\(notes.filter { $0.kind == .context }.map { $0.text })")
  let evidence: StallReport.Evidence = report.evidence
  let counts: [StallReport.Evidence.Count] = evidence.noStack
  print("evidence=\(evidence.stackCount > 3) \(counts.allSatisfy { (count) -> Bool in count.reason.code != "" })")
  let cost: StallReport.Cost = report.cost
  print("cost=\(cost.stacksBySignal + cost.stacksFromOutside > 0)")
  if let queue: StallReport.QueueProgress = report.queueProgress { print("queue=\(queue.stoodStill)") }
  if let last: StallReport.Stack = report.lastStack { print("last=\(!last.functions.isEmpty)") }
  if let others: ThreadsReport = report.otherThreads {
    let groups: [ThreadsReport.Group] = others.groups
    print("others=\(groups.allSatisfy { !$0.threads.isEmpty })")
  }
  print("headline=\(report.headline)")
  print("metadata=\(report.metadata["code.function.name"] ?? "none")")
  print("text=\(report.text(width: 80).contains("CULPRIT"))")
}

@inline(never) func computeForLong(_ milliseconds: UInt64) -> UInt64 {
  let end = DispatchTime.now().uptimeNanoseconds + milliseconds * 1_000_000
  var sum: UInt64 = 0
  while DispatchTime.now().uptimeNanoseconds < end { for number in 0..<1000 { sum = sum &* 31 &+ UInt64(number) } }
  return sum
}

service: do {
  var configuration = Watchdog.Configuration(threshold: .milliseconds(300))
  configuration.sampling = Watchdog.Configuration.Sampling()
  configuration.sampling.threshold = .milliseconds(300)
  configuration.sampling.whileDebugged = Watchdog.Configuration.Sampling.Debugged.marked
  configuration.reporting = Watchdog.Configuration.Reporting()
  configuration.storage = Watchdog.Configuration.Storage()
  configuration.lifecycle = Watchdog.Configuration.Lifecycle()
  configuration.activities = Watchdog.Configuration.Activities()
  let watchdog = try Watchdog(configuration)
  print("version=\(Watchdog.version)")
  if watchdog.status.limitations.contains(where: { $0.code == .platform }) {
    try useUnwatched(watchdog)
    break service
  }
  let report = Box<StallReport?>(nil)
  let began = Box<StallEvent?>(nil)
  let handler: Watchdog.Registration = watchdog.onStall { report.set($0) }
  watchdog.onStallBegan { began.set($0) }
  watchdog.onHang { (event: StallEvent) in print("hang=\(event.isHang)") }
  watchdog.onLeakedActivity { (leak: Watchdog.LeakedActivity) in print("leaked=\(leak.name) \(leak.reason == .dropped)")
  }
  watchdog.onPreviousRun { (run: Watchdog.PreviousRun) in print("previous=\(run.ending == .cleanExit)") }
  let veto: Watchdog.Registration = watchdog.onTerminate { request -> Watchdog.TerminationRequest.Decision in
    let time: Watchdog.CPUTime = request.cpuTime
    return time.elapsed > .zero ? .veto : .terminate
  }
  veto.remove()
  watchdog.addContext("orders") { "17 waiting" }
  let loop: WatchedLoop = try watchdog.watchLoop(named: "accept")
  loop.withTurn(label: "request 1") {}
  loop.begin()
  loop.end()
  let probes: [WatchedProbe] = [
    try watchdog.watchQueue(.main), try watchdog.watchConcurrency(), try watchdog.watchMainActor(),
    try watchdog.watchLoop(named: "queue") { probe in DispatchQueue.global().async(execute: probe) },
  ]
  for probe in probes { probe.stop() }
  do { let _: WatchedRunLoop = try watchdog.watchMainRunLoop() } catch {
    print("run loop=\(error.code == .noRunLoops)")
  }
  let upload: WatchedActivity = try watchdog.beginActivity("upload", threshold: .seconds(60))
  watchdog.withActivity("small") {}
  let section: WatchedSection = watchdog.beginSection("short", threshold: .seconds(10))
  section.withExemption {}
  section.end()
  let sum = watchdog.withSection("rebuild", threshold: .milliseconds(300)) { computeForLong(1200) }
  upload.end()
  do { _ = try watchdog.watchLoop(named: "accept") } catch {
    let code: WatchdogError.Code = error.code
    print("error=\(code) \(error.name ?? "") \(code == .alreadyWatched)")
  }
  let threads: ThreadsReport = try watchdog.captureThreads()
  print("threads=\(threads.count > 0 && threads.isComplete)")
  let status: Watchdog.Status = watchdog.status
  let hangs: [Watchdog.Hang] = status.hanging
  let limitations: [Watchdog.Limitation] = status.limitations
  print("status=\(status.mode == .watching) \(hangs.isEmpty) \(limitations.allSatisfy { $0.code != .platform })")
  while report.current == nil { _ = computeForLong(10) }
  handler.remove()
  watchdog.stop()
  print("began=\(began.current.map { $0.source.name } ?? "none") \(sum != 1)")
  if let report = report.current { describe(report) }
} catch {
  print("failed=\(error)")
}

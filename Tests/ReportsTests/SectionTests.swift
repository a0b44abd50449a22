import CulpritStallRecord
import Foundation
import SampleRecordings
import SplitMix
import Testing

@testable import CulpritBlame
@testable import CulpritReports

private func seconds(_ number: Double) -> Seconds { Seconds(.nanoseconds(Int64((number * 1e9).rounded()))) }

private func function(
  _ name: String,
  at place: (String, Int)? = nil,
  module: String = "/opt/shop/bin/shop",
  package: String? = nil,
  isOwn: Bool = true,
  isInlined: Bool = false
) -> StallReport.Function {
  StallReport.Function(
    name: name,
    displayName: name,
    module: module,
    package: package,
    location: place.map { StallReport.Location(file: "/src/shop/\($0.0)", line: $0.1, column: 3) },
    isOwn: isOwn,
    isInlined: isInlined,
    isAwaiting: false,
    address: StallReport.Address(kind: .file, value: 0x1000)
  )
}

private func system(_ name: String, module: String = "/usr/lib/libc.so.6") -> StallReport.Function {
  function(name, module: module, isOwn: false)
}

private func finding(_ function: StallReport.Function, _ share: Double, _ time: Double) -> StallReport.Finding {
  StallReport.Finding(
    function: function,
    share: share,
    shareLow: share / 2,
    shareHigh: share + (1 - share) / 2,
    seconds: seconds(time),
    sampleCount: Int(share * 40)
  )
}

private func node(
  _ function: StallReport.Function,
  _ share: Double,
  own: Double = 0,
  repetitions: Int = 1,
  _ children: [StallReport.Node] = []
) -> StallReport.Node {
  StallReport.Node(
    function: function,
    share: share,
    seconds: seconds(share * 10),
    selfSeconds: seconds(own * 10),
    repetitions: repetitions,
    children: children
  )
}

private let rebuild = function("Catalog.rebuild()", at: ("Catalog.swift", 41))

/// A report with content in every section.
func fullReport() -> StallReport {
  let builder = ReportBuilder(Recording(process: exampleProcess)) { _ in [] }
  var report = builder.report(of: exampleStall().0)
  report.source.kind = .queue
  report.durationSeconds = seconds(10)
  report.isLowerBound = true
  report.hasEnded = false
  (report.verdict, report.verdictReason) = (.culprit, nil)
  var culprit = finding(rebuild, 0.8, 8)
  culprit.cpuUse = StallReport.CPUUse(share: 0.5, runnableShare: 0.25)
  culprit.waiting = StallReport.Waiting(samples: 7, of: 9, systemCall: "futex")
  report.culprit = culprit
  report.parts = [("first()", 0.3), ("second()", 0.2), ("third()", 0.15), ("fourth()", 0.1)]
    .map { finding(function($0.0), $0.1, $0.1 * 10) }
  report.callers = [finding(function("viaOne()"), 0.5, 5), finding(function("viaTwo()"), 0.3, 3)]
  report.outerCallers = [finding(function("serve()"), 0.4, 4), finding(function("accept()"), 0.2, 2)]
  report.callees = [
    finding(system("malloc"), 0.1, 1), finding(system("memcpy"), 0.15, 1.5),
    // A function of another file with the same name.
    finding(system("malloc", module: "/opt/libjemalloc.so"), 0.1, 1), finding(system("free"), 0.12, 1.2),
    finding(system("calloc"), 0.11, 1.1),
  ]
  report.ownSeconds = seconds(2.2)
  report.spentIn = finding(function("Parser.parse()", package: "swift-parsing", isOwn: false, isInlined: true), 0.6, 6)
  report.contenders = [("a()", 0.05), ("b()", 0.04), ("c()", 0.03), ("d()", 0.02), ("e()", 0.01), ("f()", 0.005)]
    .map { finding(function($0.0, at: ("\($0.0.prefix(1)).swift", 7)), $0.1, $0.1 * 10) }
  report.contenderCount = 9
  report.taskTimes = StallReport.TaskTimes(suspendedSeconds: seconds(2.5), readySeconds: seconds(1.25))
  report.queueProgress = StallReport.QueueProgress(stoodStill: true, samples: 12, of: 15)
  report.labels = (1...6).map { StallReport.Label(text: "request \($0)", share: 0.1 * Double($0), seconds: seconds(1)) }
  report.notes = fullNotes()
  report.tree = [
    node(
      system("_start"),
      0.99,
      [
        node(
          function("serve()"),
          0.99,
          own: 0.09,
          [
            node(rebuild, 0.8, own: 0.1, repetitions: 3, [node(system("memcpy"), 0.7, own: 0.7)]),
            node(function("log()"), 0.09, own: 0.09), node(function("small()"), 0.006), node(function("tiny()"), 0.004),
          ]
        )
      ]
    ), node(system("clone"), 0.005, own: 0.005),
  ]
  report.lastStack = StallReport.Stack(
    functions: (0..<15).map { function("frame\($0)()", at: ("Frames.swift", $0), isInlined: $0 == 2) },
    missingCallers: StallReport.Reason(.copyLimit)
  )
  report.lastStackBlames = function("frame1()")
  report.evidence = StallReport.Evidence(
    stackCount: 40,
    noStack: [
      StallReport.Evidence.Count(reason: StallReport.Reason(code: "x", text: "no answer"), count: 1),
      StallReport.Evidence.Count(reason: StallReport.Reason(code: "y", text: "it was gone"), count: 2),
    ],
    missingCallers: [
      StallReport.Evidence.Count(reason: StallReport.Reason(code: "x", text: "too deep"), count: 1),
      StallReport.Evidence.Count(reason: StallReport.Reason(code: "y", text: "too strange"), count: 3),
    ],
    completedCount: 4,
    joinedCount: 5,
    unknownCallersCount: 2,
    lostCount: 6,
    skippedCount: 0,
    omittedCount: 0,
    isDamaged: true,
    unobservedSeconds: seconds(0.7),
    gapSeconds: seconds(0.8)
  )
  report.otherThreads = threadsReport()
  report.cost = StallReport.Cost(
    stacksFromOutside: 11,
    stacksBySignal: 12,
    withoutStack: 13,
    longestHandlerSeconds: seconds(0.000_014),
    handlerSeconds: seconds(0.000_15),
    unwindSeconds: seconds(0.016)
  )
  report.repeats = 17
  report.missingNames = ["no name in libz.so: none"]
  return report
}

private func fullNotes() -> [StallReport.Note] {
  func note(_ kind: StallReport.Note.Kind, _ title: String = "", _ text: String = "", _ time: Double = 0)
    -> StallReport.Note
  {
    StallReport.Note(kind: kind, title: title, text: text, seconds: seconds(time))
  }
  return [
    note(.context, "orders", "17 waiting"), note(.context, "", "no title"), note(.activity, "upload", "to disk", 31),
    note(.activity, "sync", "", 0.25), note(.debugger, "", "process 9"), note(.debugger), note(.hang, "", "", 8),
    note(.cpuTime, "", "1.2 s of it before"), note(.cpuTime, "", "1.5 s of it in all"),
    note(.unwatched, "", "", 1), note(.unwatched, "", "", 2),
  ]
}

private func threadsReport() -> ThreadsReport {
  func threads(_ ids: ClosedRange<Int32>, _ name: String = "") -> [StallReport.Thread] {
    ids.map { StallReport.Thread(id: $0, name: name) }
  }
  func group(
    _ threads: [StallReport.Thread],
    _ kind: StallReport.Activity.Kind,
    _ call: String? = nil,
    _ functions: [StallReport.Function] = [],
    missing: StackEnd = .outermost
  ) -> ThreadsReport.Group {
    ThreadsReport.Group(
      threads: threads,
      activity: StallReport.Activity(kind: kind, systemCall: call),
      functions: functions,
      noStack: functions.isEmpty && call == nil ? StallReport.Reason(.untouchable) : nil,
      missingCallers: StallReport.Reason(missing)
    )
  }
  let own = ["d()", "c()", "b()", "a()"].map { function($0, at: ("Work.swift", 5)) }
  return ThreadsReport(
    groups: [
      group(threads(1...8, "worker"), .inSystemCall, "futex", [system("wait")] + own, missing: .frameLimit),
      group(threads(11...12), .computing, nil, [system("spin"), system("clone")]),
      group(threads(21...21, "odd"), .inRestartedCall, "poll", own), group(threads(31...31), .inRestartedCall, nil),
      group(threads(41...41), .inSystemCall, nil, own), group(threads(51...51), .blocked, "none"),
      group(threads(61...62), .unknown), group(threads(71...71), .computing, nil, own),
    ],
    omittedCount: 2,
    isComplete: false
  )
}

/// Compares every section with a reviewed snapshot.
@Suite struct SectionTests {
  @Test(arguments: [60, 100]) func printsEverySection(width: Int) {
    expectSnapshot(fullReport().text(width: width), "full-\(width)")
  }

  @Test func omitsEmptySections() {
    var report = fullReport()
    report.process = nil
    report.thread = StallReport.Thread(id: 0, name: "")
    (report.isLowerBound, report.hasEnded) = (false, true)
    report.parts = [report.parts[0]]
    report.callers = []
    report.ownSeconds = seconds(0.01)
    report.callees = [finding(system("malloc"), 0.1, 7.9), finding(system("free"), 0.1, 0.01)]
    report.spentIn = nil
    report.contenders = []
    report.queueProgress = StallReport.QueueProgress(stoodStill: false, samples: 3, of: 4)
    report.taskTimes = nil
    (report.labels, report.notes, report.missingNames, report.repeats) = ([], [], [], 0)
    report.lastStack?.functions.removeLast(3)
    report.lastStack?.missingCallers = nil
    report.lastStackBlames = nil
    report.otherThreads?.groups = []
    report.cost = StallReport.Cost(
      stacksFromOutside: 1,
      stacksBySignal: 0,
      withoutStack: 0,
      longestHandlerSeconds: seconds(0),
      handlerSeconds: seconds(0),
      unwindSeconds: seconds(0)
    )
    (report.evidence.completedCount, report.evidence.unknownCallersCount) = (0, 0)
    (report.evidence.joinedCount, report.evidence.lostCount, report.evidence.isDamaged) = (0, 0, false)
    (report.evidence.noStack, report.evidence.missingCallers) = ([], [])
    (report.evidence.unobservedSeconds, report.evidence.gapSeconds) = (seconds(0), seconds(0))
    expectSnapshot(report.text(width: 100), "sparse-100")
  }

  @Test func printsShortEndReport() {
    expectSnapshot(fullReport().endText(width: 100), "ended-100")
    expectSnapshot(fullReport().endText(width: 10), "ended-40")
    var report = fullReport()
    (report.verdict, report.verdictReason, report.culprit, report.causes) = (.noStacks, nil, nil, [])
    #expect(report.endText(width: 100).contains("\nCULPRIT   unknown: no stack was captured\n"))
  }

  @Test func writesMarkdown() {
    expectSnapshot(fullReport().markdown, "markdown")
    var report = fullReport()
    report.source.name = "a*b_c|d [x](y) <i> @team #1 ```"
    let lines = report.markdown.split(separator: "\n")
    #expect(
      lines.first?.hasPrefix(
        "### dispatch queue \"a\\*b\\_c\\|d \\[x\\](y) \\<i\\> @\u{2060}team #\u{2060}1 \\`\\`\\`\" was stuck for"
      ) == true,
      "\(lines.first ?? "")"
    )
    // The report's text contains three backquotes.
    #expect(lines.contains("````text") && lines.last == "````")
  }

  @Test(arguments: [false, true]) func describesOngoingStallsAndHangs(_ isHang: Bool) {
    var stall = Stall("ht\u{1b}[31mtp", thread: (43, "eve\nnts"), began: 1_700_000_000_000_000_000)
    stall.duration = .milliseconds(1200)
    let process = ObservedProcess(42, "/opt/shop/bin/shop", since: 1_600_000_000_000_000_000)
    let text = EventText(stall, of: process, isHang: isHang)
    expectSnapshot(text.text(width: 100) + text.text(width: 40) + text.summary + "\n", isHang ? "hang" : "began")
    #expect(EventText(stall, of: nil, isHang: isHang).summary.contains("Z event loop"))
  }

  @Test func describesPoolInThreads() {
    var report = fullReport()
    report.source.kind = .pool
    report.parts.removeLast(2)
    report.queueProgress?.samples = 15
    (report.notes, report.otherThreads, report.labels) = ([], nil, [])
    expectSnapshot(report.text(width: 100), "pool-100")
  }

  @Test func groupsPoolThreadsByCulprit() {
    var report = fullReport()
    report.source.kind = .pool
    (report.notes, report.otherThreads, report.labels, report.parts) = ([], nil, [], [])
    func worker(_ id: Int32, _ name: String?, _ share: Double) -> StallReport.Worker {
      StallReport.Worker(
        thread: StallReport.Thread(id: id, name: ""),
        culprit: name.map { finding(function($0), share, 1) }
      )
    }
    report.workers = [
      worker(11, "load()", 0.52), worker(12, "save()", 0.7), worker(13, nil, 0), worker(14, "save()", 0.91),
      worker(15, "save()", 0.8), worker(16, "send()", 1), worker(17, "send()", 1),
    ]
    expectSnapshot(report.text(width: 100), "workers-100")
  }

  /// At most three callers are named, each with at least half a percent of the culprit's 8 s.
  @Test(arguments: 0...5, [false, true]) func namesLargestCallers(heavy: Int, hasRare: Bool) throws {
    var report = fullReport()
    report.outerCallers = []
    report.callers = (0..<heavy).map { finding(function("caller\($0)()"), 0.2, 0.04) }
    if hasRare { report.callers.append(finding(function("rare()"), 0, 0.039_999_999)) }
    let line = report.text(width: 400).split(separator: "\n").first { $0.contains("called from: ") }
    guard heavy > 0 else {
      #expect(line == nil)
      return
    }
    let names = try #require(line).split(separator: ": ")[1].split(separator: ", ").map { $0.prefix { $0 != " " } }
    let shown = min(heavy, 3)
    let expected = (0..<shown).map { "caller\($0)()" } + (report.callers.count > shown ? ["…"] : [])
    #expect(names.map(String.init) == expected)
  }

  @Test(arguments: 1...7) func namesContendersAndCountsRest(count: Int) {
    var report = fullReport()
    report.contenders = (0..<count).map { finding(function("contender\($0)()"), 0.01, 0.1) }
    // One contender is below the limit, and another is only counted.
    report.contenders.append(finding(function("hardly()"), 0.009_999, 0.099_99))
    report.contenderCount = count + 2
    let text = report.text(width: 200)
    for place in 0..<count { #expect(text.contains("contender\(place)()") == (place < 4)) }
    #expect(!text.contains("hardly()"))
    let rest = count + 1 - min(count, 4)
    #expect(text.contains("and \(rest) other\(rest == 1 ? "" : "s")\n"))
  }

  @Test(arguments: 0...5) func listsPartsOfDividedCulprit(count: Int) {
    var report = fullReport()
    report.parts = (0..<count).map { finding(function("part\($0)()"), 0.2, 2) }
    let shown = (0..<min(count, 3)).map { "part\($0)() 20 %" }
    let text = report.text(width: 400)
    #expect(text.contains("divided between ") == (count > 1))
    guard count > 1 else { return }
    let list = shown.dropLast().joined(separator: ", ") + " and " + shown[shown.count - 1] + (count > 3 ? ", …" : "")
    #expect(text.contains("divided between \(list), all called by Catalog.rebuild()"))
  }

  @Test func printsAddressOnce() throws {
    func nameless(_ number: Int) -> StallReport.Function {
      var function = function("shop+0x\(number)0")
      function.noName = "the file has no symbols"
      return function
    }
    var report = fullReport()
    report.source.kind = .loop
    report.culprit?.function = nameless(1)
    report.contenders = [finding(nameless(2), 0.1, 1)]
    report.spentIn = finding(nameless(3), 0.6, 6)
    report.timeline = [
      StallReport.Stretch(beginSeconds: seconds(0), endSeconds: seconds(8), culprit: finding(nameless(4), 0.9, 7)),
      StallReport.Stretch(beginSeconds: seconds(8), endSeconds: seconds(9), culprit: finding(nameless(5), 0.9, 1)),
    ]
    report.lastStack?.functions = [nameless(6), nameless(7)]
    report.tree = [node(nameless(8), 1, own: 1, [node(nameless(9), 1, own: 1)])]
    report.otherThreads?.groups = Array(threadsReport().groups.prefix(2))
    report.otherThreads?.groups[0].functions = [nameless(10)]
    report.otherThreads?.groups[1].functions = [nameless(11)]
    report.otherThreads?.groups[1].functions[0].isOwn = false
    let link = waitLink(.mutex, of: 7, culprit: finding(nameless(12), 1, 1))
    report.waitChains = [waitChain([link], isCycle: false, isDeadlock: false)]
    let threads = try #require(report.otherThreads).text(width: 200)
    let last = LastStacksText([StallReport.TimedStack(ageSeconds: seconds(1), functions: [nameless(13)])])
    let text = report.text(StallReport.TextStyle(width: 200, isFull: true)) + threads + last.text(width: 200)
    for number in 1...13 {
      let lines = text.split(separator: "\n").filter { $0.contains("shop+0x\(number)0") }
      #expect(!lines.isEmpty && lines.allSatisfy { $0.split(separator: "shop").count == 2 }, "\(number): \(lines)")
    }
    #expect(!text.contains("in shop\n") && !report.endText(width: 200).contains("computing:"), "\(text)")
    // The address identifies a library function without a symbol.
    var library = system("a function of libc.so.6")
    (library.name, library.noName) = ("libc.so.6+0x10", "the file has no symbols")
    #expect(Formatting.placed(library) == "a function of libc.so.6 (libc.so.6+0x10)")
    #expect(Formatting.placed(function("load() (a.c:7)", at: ("a.c", 7))) == "load() (a.c:7)")
    #expect(Formatting.placed(function("load() (libc.so.6)", module: "/usr/lib/libc.so.6")) == "load() (libc.so.6)")
    #expect(Formatting.placed(function("shop+0x10", isInlined: true)) == "shop+0x10 (inlined)")
  }

  @Test func truncatesLongTexts() throws {
    let long = String(repeating: "0123456789", count: 1000)
    let cut = "\(long.prefix(49))…\(long.suffix(50))"
    var report = fullReport()
    report.source.name = long
    report.thread.name = long
    report.process?.executable = "/opt/" + long
    report.labels = [StallReport.Label(text: long, share: 1, seconds: seconds(1))]
    report.otherThreads?.groups[0].threads[0].name = long
    report.notes = [StallReport.Note.Kind.context, .activity, .debugger, .overlap]
      .map { StallReport.Note(kind: $0, title: long, text: $0 == .overlap ? "1" : long, seconds: seconds(1)) }
    let text = report.text(width: 1000)
    for words in [
      "queue \"\(cut)\"", "thread 4242 \"\(cut)\"", "\(cut) (process", "LABELS    \(cut) 100 %", "\"\(cut)\" 1,",
      "CONTEXT   \(cut): \(long.prefix(199))…", "OVERLAP   \(cut) was stuck",
    ] { #expect(text.contains(words), "\(words): \(text)") }
    #expect(text.utf8.count < 12_000 && report.headline.count < 300 && report.summary.count < 500)
    #expect(report.endText(width: 100).utf8.count < 1000)
    #expect(report.text(StallReport.TextStyle(width: 1000, isFull: true)).contains(" \(long)\n"))
    #expect(try report.json().split(separator: long).count > 8)
  }

  @Test func describesBlankNames() throws {
    let stack = Stack(frames: [.programCounter(RuntimeAddress(1))], end: .outermost)
    let builder = ReportBuilder(Recording(process: exampleProcess, stacks: [stack])) { frame in
      [ResolvedFrame(function: "  ", rawName: "  ", module: "/a", address: .file(FileAddress(frame.address.value)))]
    }
    var (stall, _) = exampleStall()
    stall.source.name = " "
    stall.lostSamples = 0
    stall.samples = [Sample(age: .seconds(5), stack: 0, outcome: .captured, cpuTime: nil, label: "\u{3000}")]
    let report = builder.report(of: stall)
    let text = report.text(width: 100)
    for words in ["CULPRIT   (a name of spaces) 100 %", "LABELS    (a name of spaces) 100 %", "*(a name of spaces)  a"]
    {
      #expect(text.contains(words), "\(words): \(text)")
    }
    for line in [report.headline, report.summary] {
      let words = "loop \"(a name of spaces)\" was stuck for 5.01 s: (a name of spaces) took 100 %"
      #expect(line.contains(words), "\(line)")
    }
    #expect(report.culprit?.function.name == "  " && report.source.name == " ")
  }

  @Test func explainsMissingCulprit() {
    var report = fullReport()
    (report.verdict, report.culprit) = (.noSingleCulprit, nil)
    report.dominant = finding(system("poll"), 0.6, 6)
    let text = report.text(width: 200)
    let none = "\nCULPRIT   none: no application function has half of the stall"
    #expect(text.contains("\(none); the path ends in poll, 60 %\n"))
    report.dominant = nil
    #expect(report.text(width: 200).contains("\(none)\n") && report.endText(width: 200).contains("\(none)\n"))
    (report.verdict, report.verdictReason) = (.noStacks, "the thread had exited")
    let unknown = "\nCULPRIT   unknown: no stack was captured"
    #expect(report.text(width: 200).contains("\(unknown) (the thread had exited)\n"))
    report.verdictReason = nil
    #expect(report.text(width: 200).contains("\(unknown)\n"))
    for line in report.text(width: 60).split(separator: "\n") { #expect(!line.hasPrefix("NO ")) }
  }

  @Test func namesLocationOfSuspendedWork() throws {
    var report = fullReport()
    (report.verdict, report.culprit, report.callers) = (.suspended, nil, [])
    report.suspendedIn = finding(function("Future.get()", at: ("Future.swift", 41), isOwn: false), 0.9, 4.5)
    let place = "suspended in Future.get() (Future.swift:41)"
    #expect(report.text(width: 200).contains("\nCULPRIT   unknown: \(place), 90 % of the stall, 4.50 s\n"))
    #expect(report.endText(width: 200).contains("\nCULPRIT   unknown: \(place), 90 % of the stall, 4.50 s\n"))
    report.callers = [finding(function("Timing.respond()", at: ("Timing.swift", 12)), 0.9, 4.5)]
    let called = "\(place), called by Timing.respond() (Timing.swift:12)"
    #expect(report.text(width: 200).contains("\nCULPRIT   unknown: \(called), 90 % of the stall, 4.50 s\n"))
    #expect(report.headline.hasSuffix(": \(called)") && report.metadata["culprit.suspended_in"] == "Future.get()")
    let again = try JSONDecoder().decode(StallReport.self, from: Data(report.json().utf8))
    #expect(again == report && again.suspendedIn == report.suspendedIn)
  }

  @Test(arguments: [40, 100]) func groupsThreads(width: Int) {
    expectSnapshot(threadsReport().text(width: width), "threads-\(width)")
  }

  @Test(arguments: [40, 41, 80]) func fitsThreadsInASCII(width: Int) {
    var report = threadsReport()
    report.groups = [report.groups[0]]
    report.groups[0].threads[0].name = "wörker"
    report.groups[0].functions[0].displayName = String(repeating: "wörd.", count: 40)
    let text = report.text(StallReport.TextStyle(width: width, isASCII: true))
    #expect(text.utf8.allSatisfy { $0 < 0x80 } && text.contains("w\\u{f6}rker") && text.contains("..."), "\(text)")
    #expect(text.split(separator: "\n").allSatisfy { $0.count <= width }, "\(text)")
  }

  @Test func describesSingleThreadBriefly() {
    var report = threadsReport()
    report.groups = [report.groups[2]]
    (report.omittedCount, report.isComplete) = (0, true)
    expectSnapshot(report.text(width: 10), "thread-40")
  }

  @Test func printsRepeatedLastStacksOnce() {
    let (one, other) = ([rebuild, system("_start")], [function("other()")])
    let turn = [function("handle()"), function("turn()"), system("_start")]
    let stacks = [
      (1, one), (2, one), (3, other), (4, one), (5, []), (6, []), (7, one), (8, other + turn), (9, one + turn),
      (10, turn),
    ]
    .map { StallReport.TimedStack(ageSeconds: seconds($0.0), functions: $0.1) }
    expectSnapshot(LastStacksText(stacks).text(width: 60), "last-stacks-60")
    #expect(LastStacksText([]).text() == "LAST      0 stacks\n")
  }
}

@Suite struct FiguresTests {
  @Test(arguments: [
    (-1, "0 %"), (0, "0 %"), (1e-9, "<1 %"), (0.004_99, "<1 %"), (0.005, "1 %"), (0.5, "50 %"), (0.994_9, "99 %"),
    (0.995_1, ">99 %"), (1, "100 %"), (7, "100 %"),
  ])
  func formatsShares(share: Double, text: String) {
    #expect(Formatting.percent(share) == text)
  }

  @Test(arguments: [
    (0, "0 ms"), (0.000_000_6, "1 µs"), (0.000_999, "999 µs"), (0.001, "1 ms"), (0.999_4, "999 ms"), (1, "1.00 s"),
    (1.005, "1.00 s"), (1.006, "1.01 s"), (99.99, "99.99 s"), (100, "100 s"), (3599, "3599 s"), (3600, "1 h 0 min"),
    (3659, "1 h 0 min"), (3660, "1 h 1 min"), (359_999, "99 h 59 min"), (360_000, "4 d"), (432_000, "5 d"),
  ])
  func formatsDurations(seconds: Double, text: String) {
    #expect(Formatting.duration(.nanoseconds(Int64((seconds * 1e9).rounded()))) == text)
  }

  @Test func roundsIntervalsOutwards() {
    #expect(Formatting.interval(0.619, 0.911) == "61–92 %")
    #expect(Formatting.interval(0, 1) == "0–100 %")
  }

  @Test func formatsDecimalsAndCounts() {
    #expect(Formatting.fixed(1.005_4, decimals: 3) == "1.005")
    #expect(Formatting.fixed(12.04, decimals: 1) == "12.0")
    #expect(Formatting.fixed(0.999_9, decimals: 3) == "1.000")
    #expect(Formatting.right("ab", 4) == "  ab" && Formatting.right("abcd", 3) == "abcd")
    #expect(Formatting.count(0, "look") == "0 looks")
    #expect(Formatting.count(1, "look") == "1 look" && Formatting.count(2, "look") == "2 looks")
  }

  @Test func truncatesMiddleOfLongText() {
    let text = "abcdefghijkl"
    for width in 5...11 {
      let fitted = FunctionName.withoutMiddle(text, width)
      let parts = fitted.split(separator: "…")
      #expect(fitted.count == width && parts.count == 2)
      #expect(text.hasPrefix(parts[0]) && text.hasSuffix(parts[1]))
      #expect((0...1).contains(parts[1].count - parts[0].count))
    }
    #expect(FunctionName.withoutMiddle(text, 12) == text)
    #expect([4, 0, -1].map { FunctionName.withoutMiddle(text, $0) } == ["abcd", "", ""])
  }

  @Test func drawsBarsInEighths() {
    let steps = Array(" ▏▎▍▌▋▊▉█")
    for eighths in 0...24 {
      let bar = Formatting.bar(Double(eighths) / 24, width: 3)
      #expect(bar.count == 3)
      #expect(bar.reduce(0) { $0 + (steps.firstIndex(of: $1) ?? 99) } == eighths, "\(bar)")
    }
    #expect(Formatting.bar(2, width: 2) == "██" && Formatting.bar(-1, width: 2) == "  ")
  }

  @Test func fillsLinesUpToWidth() {
    var random = SplitMix(7)
    for _ in 0..<200 {
      let words = (0..<Int.random(in: 0...30, using: &random))
        .map { _ in String(repeating: "x", count: Int.random(in: 1...12, using: &random)) }
      let width = Int.random(in: 1...30, using: &random)
      let lines = Formatting.wrapped(words.joined(separator: " "), width).map { $0.split(separator: " ") }
      #expect(lines.joined().map(String.init) == words)
      func length(_ words: some Collection<Substring>) -> Int { words.reduce(-1) { $0 + 1 + $1.count } }
      for line in lines where line.count > 1 { #expect(length(line) <= width) }
      for (line, next) in zip(lines, lines.dropFirst()) { #expect(length(line + next.prefix(1)) > width) }
    }
  }

  @Test func keepsUnitsWithNumbers() {
    #expect(Formatting.wrapped("took 12 s, or 7 %; or 8 ms", 7) == ["took", "12 s,", "or 7 %;", "or 8 ms"])
    #expect(Formatting.wrapped("is it s", 5) == ["is it", "s"])
    #expect(Formatting.wrapped("in 12 sets", 6) == ["in 12", "sets"])
  }
}

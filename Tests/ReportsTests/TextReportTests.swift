import CulpritStallRecord
import Glibc
import SampleRecordings
import Testing

@testable import CulpritBlame
@testable import CulpritReports

/// Compares `text` with Snapshots/NAME.txt, or writes that file if RECORD_SNAPSHOTS is set.
func expectSnapshot(_ text: String, _ name: String, sourceLocation: Testing.SourceLocation = #_sourceLocation) {
  let directory = #filePath.split(separator: "/").dropLast().joined(separator: "/")
  let path = "/\(directory)/Snapshots/\(name).txt"
  if getenv("RECORD_SNAPSHOTS") != nil {
    let file = fopen(path, "w")
    fputs(text, file)
    fclose(file)
    return
  }
  var expected = ""
  if let file = fopen(path, "r") {
    var line: UnsafeMutablePointer<CChar>?
    var size = 0
    while getline(&line, &size, file) > 0, let line { expected += String(cString: line) }
    free(line)
    fclose(file)
  }
  #expect(
    text == expected,
    "differs from Snapshots/\(name).txt; if it should, run RECORD_SNAPSHOTS=1 tools/test --filter ReportsTests",
    sourceLocation: sourceLocation
  )
}

/// A stall like the demo's, with every kind of name.
func exampleStall() -> (Stall, ReportBuilder) {
  let root = ["_start", "__libc_start_main", "main", "Server.run()", "Server.handle(_:)", "Server.rebuild()"]
  let first = root + ["Catalog.rebuildIndex(for:)", "Dictionary.subscript.modify"]
  let timeline: [[String]] =
    Array(repeating: first + ["swift_isUniquelyReferenced_nonNull_native"], count: 8)
    + Array(repeating: first + ["__RawDictionaryStorage.find(_:)"], count: 5)
    + Array(repeating: root + ["Catalog.rebuildIndex(for:)"], count: 3)
    + Array(repeating: root + ["Catalog.writeSnapshot(to:)", "write"], count: 3) + [[]]
  var names: [UInt64: String] = [:]
  var stacks: [Stack] = []
  var samples: [Sample] = []
  for (number, functions) in timeline.enumerated() {
    let frames = functions.reversed().map { name -> StackFrame in
      let address = UInt64(name.utf8.reduce(7) { ($0 &* 31 &+ Int($1)) & 0xffff }) << 4
      names[address] = name
      return .programCounter(RuntimeAddress(address))
    }
    if !frames.isEmpty { stacks.append(Stack(frames: frames, end: number == 4 ? .copyLimit : .outermost)) }
    let used = Duration.milliseconds(500 + 220 * min(number, 16))
    samples.append(Sample(.milliseconds(500 + 225 * number), frames.isEmpty ? nil : stacks.count - 1, used: used))
  }
  let stall = Stall(
    "http",
    thread: (4242, "shop"),
    threshold: .milliseconds(4500),
    began: 1_795_170_231_204_000_000,
    samples: samples,
    duration: .milliseconds(5010),
    hasEnded: true,
    lostSamples: 2,
    gap: .milliseconds(1500)
  )
  let builder = ReportBuilder(Recording(process: exampleProcess, stacks: stacks, stalls: [stall])) { frame in
    let name = names[frame.address.value] ?? "?"
    let isOwn = name.hasPrefix("Server") || name.hasPrefix("Catalog") || name == "main"
    return [
      ResolvedFrame(
        function: name == "write" ? nil : name,
        rawName: name == "write" ? nil : name,
        module: isOwn ? "/opt/shop/bin/shop" : "/usr/lib/x86_64-linux-gnu/libc.so.6",
        start: FileAddress(0x10d030),
        address: .file(FileAddress(frame.address.value)),
        location: isOwn && name != "main"
          ? SourceLocation(file: "/home/build/shop/Sources/Shop/\(name.prefix { $0 != "." }).swift", line: 42) : nil,
        missing: name == "write" ? .noSymbolHere : nil
      )
    ]
  }
  return (stall, builder)
}

let exampleProcess = ObservedProcess(4242, "/opt/shop/bin/shop", since: 1_795_170_000_000_000_000)

@Suite struct TextReportTests {
  @Test(arguments: [80, 120])
  func completeReport(width: Int) {
    let (stall, builder) = exampleStall()
    let text = builder.report(of: stall).text(width: width)
    expectSnapshot(text, "report-\(width)")
  }

  @Test func unfinishedStall() {
    var (stall, _) = exampleStall()
    stall.hasEnded = false
    stall.duration = .milliseconds(4900)
    stall.samples = []
    var stacks: [Stack] = []
    for (number, leaf) in [3, 4, 3, 5, 4, 5].enumerated() {
      stacks.append(Stack(frames: [UInt64(leaf), 2, 1].map { .programCounter(RuntimeAddress($0)) }, end: .outermost))
      stall.samples.append(Sample(.milliseconds(500 + 800 * number), number, .inSystemCall(number < 4 ? 202 : 35)))
    }
    let names = [
      1: "Server.run()", 2: "forEach(_:)", 3: "closure #1 in load()", 4: "closure #2 in load()", 5: "store()",
    ]
    let builder = ReportBuilder(Recording(process: nil, stacks: stacks)) { frame in
      let name = names[Int(frame.address.value)] ?? "?"
      let module = name == "forEach(_:)" ? "/usr/lib/swift/linux/libswiftCore.so" : "/opt/shop/bin/shop"
      return [
        ResolvedFrame(function: name, rawName: name, module: module, address: .file(FileAddress(frame.address.value)))
      ]
    }
    expectSnapshot(builder.report(of: stall).text(width: 80), "unfinished-80")
  }

  /// Pings are an eighth of the threshold apart, so a stall can be older than its ping.
  @Test(arguments: [SourceKind.queue, .pool, .executor, .probedLoop, .loop, .section])
  func reportsLowerBoundForPingedSources(kind: SourceKind) {
    var (stall, builder) = exampleStall()
    stall.source.kind = kind
    let text = builder.report(of: stall).text(width: 120)
    #expect(text.contains("was stuck for at least 5.01 s") == (kind != .loop && kind != .section), "\(text)")
  }

  @Test func stallWithoutStacks() {
    var (stall, _) = exampleStall()
    stall.samples = [Sample(age: .seconds(5), stack: nil, outcome: .threadGone, cpuTime: nil)]
    let builder = ReportBuilder(Recording(process: exampleProcess)) { _ in [] }
    expectSnapshot(builder.report(of: stall).text(width: 80), "no-stacks-80")
  }

  /// Only a single long word, such as a path, can exceed the width.
  @Test(arguments: [40, 60, 80, 100, 120, 200])
  func fitsLinesToWidth(width: Int) {
    let (stall, builder) = exampleStall()
    let text = builder.report(of: stall).text(width: width)
    for line in text.split(separator: "\n") where line.count > width {
      #expect(line.drop(while: { $0 == " " }).split(separator: " ").count == 1, "\(line)")
    }
    #expect(!text.contains(" \n"))
  }

  /// Names come from requests and files, and could contain control characters.
  @Test func escapesHostileNames() throws {
    var (stall, builder) = exampleStall()
    stall.source.name = "s\u{1b}[31m\n\nCULPRIT   innocent()"
    stall.thread.name = "t\r\u{202e}"
    var analysis = builder.analysis(of: stall)
    var frame = try #require(analysis.lastStack?.functions[0].frame)
    frame.function = "f\u{7}\u{0}"
    analysis.lastStack?.functions[0] = StallReport.Function(FrameContent(frame), OwnershipRules())
    let text = builder.complete(analysis).text(width: 200)
    #expect(text.split(separator: "\n").filter { $0.hasPrefix("CULPRIT") }.count == 1)
    #expect(text.unicodeScalars.allSatisfy { $0 == "\n" || $0.properties.generalCategory != .control })
    #expect(text.contains("s\\u{1b}[31m\\u{a}"))
  }

  @Test func printsExtremeValues() {
    var (stall, _) = exampleStall()
    stall.duration = .nanoseconds(1)
    stall.lostSamples = 0
    stall.samples = [Sample(age: Duration(wholeNanoseconds: .max), stack: 0, outcome: .captured, cpuTime: nil)]
    let stack = Stack(frames: [.programCounter(RuntimeAddress(1))], end: .outermost)
    let builder = ReportBuilder(Recording(process: nil, stacks: [stack])) { frame in
      [ResolvedFrame(function: "f", rawName: "f", module: "/a", address: .file(FileAddress(frame.address.value)))]
    }
    let text = builder.report(of: stall).text(width: 80)
    #expect(text.contains("CULPRIT   f 100 %"))
  }
}

import CulpritStallRecord
import Foundation
import SampleRecordings
import Testing

@testable import CulpritBlame
@testable import CulpritReports

@Suite struct TextStyleTests {
  private static let callers = ["_start", "__libc_start_main", "main"] + (1...52).map { "NIOPosix.run\($0)()" }
  private static let culprit = ["Orders.handle(_:)", "Orders.price(_:)"]
  private static let inside = ["Foundation.decode()", "Foundation.step()", "Foundation.next()"]

  /// The report of a SwiftNIO event loop's stall in the functions `own`, with its last sample in `last`.
  private func report(own: [String] = culprit, last: [String]? = nil) -> StallReport {
    let usual = Self.callers + own + Self.inside
    let timeline =
      Array(repeating: usual + ["memmove"], count: 12) + Array(repeating: usual + ["swift_retain"], count: 7)
      + [Self.callers + (last ?? own + Self.inside + ["memmove"])]
    var names: [UInt64: String] = [:]
    var addresses: [String: UInt64] = [:]
    var stacks: [Stack] = []
    var samples: [Sample] = []
    for (number, functions) in timeline.enumerated() {
      let frames = functions.reversed().map { name -> StackFrame in
        let address = addresses[name, default: UInt64(addresses.count + 1) << 4]
        addresses[name] = address
        names[address] = name
        return .programCounter(RuntimeAddress(address))
      }
      stacks.append(Stack(frames: frames, end: .outermost))
      let used = Duration.milliseconds(500 + 224 * number)
      samples.append(Sample(.milliseconds(500 + 225 * number), number, .running, used: used))
    }
    let stall = Stall(
      "loop-é",
      thread: (4242, "NIO-ELT-0-#0"),
      began: 1_795_170_231_204_000_000,
      samples: samples,
      duration: .milliseconds(5010),
      hasEnded: true
    )
    let recording = Recording(process: exampleProcess, stacks: stacks, stalls: [stall])
    return ReportBuilder(recording, resolve: { [Self.frame($0, names)] }).report(of: stall)
  }

  private static func frame(_ frame: StackFrame, _ names: [UInt64: String]) -> ResolvedFrame {
    let name = names[frame.address.value] ?? "?"
    let isOwn = name.hasPrefix("Orders")
    let library =
      name.hasPrefix("Foundation") ? "libFoundation.so" : name.contains("swift_") ? "libswiftCore.so" : "libc.so.6"
    let isPackage = name.hasPrefix("NIOPosix")
    let source =
      isPackage ? "/src/.build/checkouts/swift-nio/Sources/NIOPosix/Loop.swift" : "/src/Sources/Shop/Orders.swift"
    return ResolvedFrame(
      function: name == "memmove" ? nil : name,
      rawName: name == "memmove" ? nil : name,
      module: isOwn || isPackage ? "/opt/shop/bin/shop" : "/usr/lib/\(library)",
      start: FileAddress(frame.address.value),
      address: .file(FileAddress(frame.address.value)),
      location: isOwn || isPackage ? SourceLocation(file: source, line: 42) : nil,
      missing: name == "memmove" ? .noSymbolHere : nil
    )
  }

  private func lines(_ text: String) -> [Substring] { text.split(separator: "\n", omittingEmptySubsequences: false) }

  @Test(arguments: [40, 80, 100, 120])
  func fitsVerdictOnFirstScreen(width: Int) {
    let text = report().text(width: width)
    // A narrow page needs a few more lines.
    let first = lines(text).prefix(width < 80 ? 28 : 24)
    for label in ["CULPRIT   Orders.price(_:)", "WHY       computing", "NEXT      Do less"] {
      #expect(first.contains { $0.hasPrefix(label) }, "\(label): \(text)")
    }
    #expect(lines(text).count < 45, "\(text)")
    expectSnapshot(text, "nio-\(width)")
  }

  @Test func foldsUninformativeFrames() {
    let text = report().text(width: 100)
    let tree = lines(text).drop { !$0.hasPrefix("TREE") }.prefix { !$0.isEmpty }
    #expect(tree.contains { $0.hasSuffix("… 55 callers: swift-nio, libc.so.6") }, "\(text)")
    #expect(tree.contains { $0.contains("Foundation.decode()") } && tree.count < 12, "\(text)")
    let full = report().text(StallReport.TextStyle(isFull: true))
    for name in Self.callers + Self.culprit + Self.inside {
      #expect(full.contains("  \(name)  ") || full.contains("*\(name)  "), "\(name)")
    }
  }

  @Test(arguments: [(8, false), (9, true)]) func foldsLongRunsOfOwnFunctions(count: Int, isFolded: Bool) {
    let own = (1...count).map { "Orders.step\($0)()" }
    let text = report(own: own).text(width: 100)
    let tree = lines(text).drop { !$0.hasPrefix("TREE") }.prefix { !$0.isEmpty }
    let shown = own.filter { name in tree.contains { $0.contains(name) } }
    #expect(shown == (isFolded ? own.prefix(2) + own.suffix(4) : own), "\(text)")
  }

  @Test func printsDifferingLastStack() {
    #expect(!report().text(width: 100).contains("LAST SEEN"))
    #expect(report().text(StallReport.TextStyle(isFull: true)).contains("LAST SEEN"))
    let differing = report(last: ["Orders.save()", "write"]).text(width: 100)
    #expect(differing.contains("LAST SEEN a watchdog that takes one stack would blame Orders.save()"), "\(differing)")
    #expect(
      differing.contains("#1 Orders.save()") && differing.contains("… 55 frames: swift-nio, libc.so.6"),
      "\(differing)"
    )
  }

  @Test func attributesNamelessFunctionToLibrary() {
    let report = report()
    #expect(report.text(width: 120).contains("a function of libc.so.6  libc.so.6+0x"))
    #expect(!report.headline.contains("+0x") && !report.summary.contains("+0x"))
    #expect(!report.text(width: 120).contains("memmove"))
  }

  @Test(arguments: [40, 100])
  func writesOnlyASCIIOnRequest(width: Int) {
    let last = ["Orders.säve(ß:)"]
    let text = report(last: last).text(StallReport.TextStyle(width: width, isASCII: true))
    #expect(text.utf8.allSatisfy { $0 < 0x80 } && text.contains("loop-\\u{e9}"))
    // The layout includes escapes.
    #expect(text.contains("#0 Orders.s\\u{e4}ve("))
    for line in lines(text) where line.split(separator: " ").count > 1 { #expect(line.count <= width, "\(line)") }
    #expect(text.contains("... 5") && text.contains("####") == (width == 100), "\(text)")
    var long = report(last: last)
    long.lastStack?.functions[0].displayName = String(repeating: "wörd.", count: 40)
    long.tree[0].function.displayName = String(repeating: "wörd.", count: 40)
    long.tree[0].function.isOwn = true
    for line in lines(long.text(StallReport.TextStyle(width: width, isFull: true, isASCII: true))) {
      #expect(line.count <= width || !line.contains("..."), "\(line)")
      #expect(!line.contains("rd.") || line.contains("..."), "\(line)")
    }
    #expect("3–4 µs × 2 …".inASCII == "3-4 us x 2 ..." && "plain".inASCII == "plain")
  }

  @Test func colorsPreserveText() {
    let style = StallReport.TextStyle(explains: true, hasColor: true)
    let colored = report().text(style)
    var plain = ""
    var rest = colored[...]
    while let escape = rest.firstIndex(of: "\u{1b}") {
      plain += rest[..<escape]
      guard let end = rest[escape...].firstIndex(of: "m") else { break }
      rest = rest[rest.index(after: end)...]
    }
    plain += rest
    #expect(plain == report().text(StallReport.TextStyle(explains: true)) && plain != colored)
    #expect(
      colored.hasPrefix("\u{1b}[1mSTALL     \u{1b}[0m") && colored.contains("\u{1b}[1mCULPRIT   Orders.price(_:)")
    )
    // Each line resets its colours, so that logs of single lines stay readable.
    for line in lines(colored) {
      #expect(
        line.split(separator: "\u{1b}[0m", omittingEmptySubsequences: false).count - 1 == line.split(
          separator: "\u{1b}[",
          omittingEmptySubsequences: false
        ).count / 2
      )
    }
  }

  @Test(arguments: ["CULPRIT", "DEADLOCK"]) func emphasizesCompleteVerdict(label: String) throws {
    var report = fullReport()
    report.waitChains = [waitChain([waitLink(.mutex, of: 7)], isCycle: true, isDeadlock: true)]
    let text = report.text(StallReport.TextStyle(width: 40, hasColor: true))
    let answer = lines(text).drop { !$0.hasPrefix("\u{1b}[1m\(label)") }
    let strong = answer.prefix { $0.contains("\u{1b}[1m") }
    let words = strong.joined(separator: " ").replacingOccurrences(of: "\u{1b}[1m", with: "")
      .replacingOccurrences(of: "\u{1b}[0m", with: "").split(separator: " ").joined(separator: " ")
    let end = label == "CULPRIT" ? "80 % of the stall, 8.00 s" : "of the stall (10 samples)"
    #expect(strong.count > 1 && words.hasPrefix(label + " ") && words.hasSuffix(end), "\(text)")
    #expect(strong.dropFirst().allSatisfy { $0.hasPrefix("          \u{1b}[1m") })
    #expect(text.contains("\u{1b}[1mWHY       \u{1b}[0m"))
  }

  @Test func summarizesInOneLine() {
    let summary = report().summary
    #expect(
      summary.hasPrefix(
        "2026-11-20T10:23:51.204Z shop[4242] event loop \"loop-é\" was stuck for 5.01 s: Orders.price(_:) (Orders.swift:42) took "
      )
    )
    #expect(summary.contains("; computing") && summary.hasSuffix(" %") && !summary.contains("\n"), "\(summary)")
  }
}

import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import CulpritSymbols

/// Symbols of each kind in `Names/names.txt` with their expected names, and properties of the names in loaded
/// libraries.
@Suite(.ownThread) struct RealNameTests {
  @Test(arguments: [
    ("async_Main", "top-level code"), ("async_MainTQ0_", "top-level code"), ("async_MainTY12_", "top-level code"),
    ("async_Mainly", "async_Mainly"), ("async_MainTQ_", "async_MainTQ_"), ("async_MainTQx_", "async_MainTQx_"),
  ]) func namesAsyncTopLevelCode(symbol: String, name: String) { #expect(demangle(symbol).short == name) }

  /// Each line has the symbol, the name, and the Swift module if there is one, separated by tabs.
  @Test func namesMatchReviewedList() throws {
    let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "Names/names.txt")
    let lines = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
    #expect(lines.count >= 300)
    for line in lines where !line.hasPrefix("#") {
      let fields = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
      guard fields.count == 3 else {
        Issue.record("a line without three fields: \(line)")
        continue
      }
      let name = demangle(fields[0])
      #expect(name.short == fields[1], "\(fields[0]): \(name.full)")
      #expect(demangledName(fields[0]) == name.full)
      #expect(name.swiftModule ?? "" == fields[2], "\(fields[0]): \(name.full)")
      for fault in faults(name, of: fields[0]) { Issue.record("\(fields[0]): \(fault): \(name.short)") }
    }
  }

  @Test(arguments: [
    "/libswiftCore.so", "/libFoundation.so", "/libFoundationEssentials.so", "/libswift_Concurrency.so",
    "/libswift_StringProcessing.so", "/libdispatch.so", "/libc.so.6", ".xctest",
  ])
  func shortensLibraryNames(library: String) throws {
    let path = try #require(loadedPath(containing: library))
    let symbols = try Set(
      [["--defined-only"], ["-D", "--defined-only"]].flatMap { options in
        try ChildProcess("/usr/bin/nm", options + [path], keepsErrors: true).output.split(separator: "\n")
          .compactMap { line -> String? in
            let fields = line.split(separator: " ", maxSplits: 2)
            return fields.count == 3 && "tTwWi".contains(fields[1]) ? String(fields[2]) : nil
          }
      }
    )
    try #require(symbols.count > 300)
    var count = 0
    // Each run takes another sample of the names.
    for symbol in symbols.shuffled().prefix(500) {
      let name = demangle(symbol)
      for fault in faults(name, of: symbol) where count < 20 {
        count += 1
        Issue.record("\(symbol): \(fault): \(name.short), which is \(name.full)")
      }
    }
  }

  /// Returns the faults of `name`.
  private func faults(_ name: DemangledName, of symbol: String) -> [String] {
    let short = name.short
    var faults: [String] = []
    if short.isEmpty { faults.append("empty") }
    if short.count > 100 { faults.append("longer than 100 characters") }
    guard name.full != symbol, short != symbol else { return faults }
    if short.contains("->") && !short.contains("operator->") { faults.append("a type") }
    if short.contains("top-level code"), !isInTopLevelCode(name.full) { faults.append("no top-level code") }
    for word in [
      " infix", " postfix", "__deallocating_deinit", "__allocating_init", "unsafeMutableAddressor", "@GLIBC", "@@",
      "merged ", "value witness for", "(in _", "implicit closure", "partial apply", "generic specialization",
      "variable initialization", "one-time", "[abi:",
    ] where short.contains(word) {
      faults.append("has \"\(word)\"")
    }
    if short.contains(#/ in _[0-9A-F]{32}/#) { faults.append("has the mark of a private name") }
    if !short.contains("…"), !isBalanced(short) { faults.append("unbalanced brackets") }
    if name.swiftModule != nil, symbol.hasPrefix("$s") {
      let own = FunctionName.split(short)[0]
      for member in ["init(", "deinit", "subscript"] where own.hasPrefix(member) { faults.append("no type") }
    }
    return faults
  }

  private func isInTopLevelCode(_ full: String) -> Bool {
    guard let last = full.range(of: " in ", options: .backwards) else { return false }
    return full[last.upperBound...].allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" }
  }

  private func isBalanced(_ name: String) -> Bool {
    guard !name.contains("operator") else { return true }
    var open: [Character] = []
    for character in name {
      switch character {
      case "(": open.append(")")
      case "[": open.append("]")
      case "{": open.append("}")
      case ")", "]", "}": if open.popLast() != character { return false }
      default: break
      }
    }
    return open.isEmpty
  }

  @Test func demanglingLeaksNoMemory() async {
    await #expect(processExitsWith: .success) {
      /// The current size in pages. The peak can be from the process's start.
      func residentMemory() throws -> Int {
        let counts = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8).split(separator: " ")
        return try #require(Int(counts[1]))
      }
      let long = String(repeating: "a", count: 1000)
      let names = ["$s4shop\(long.utf8.count)\(long)yyF", "_ZN4shop\(long.utf8.count)\(long)Ev"]
      for name in names { #expect(demangle(name).full.contains(long)) }
      for _ in 0..<100 { for name in names { _ = demangle(name) } }
      let before = try residentMemory()
      for _ in 0..<600 { for name in names { _ = demangle(name) } }
      let growth = try residentMemory() - before
      // A leak would take 300 pages.
      #expect(growth < 200, "\(growth)")
    }
  }
}

@Suite(.ownThread) struct RustNameTests {
  /// Kinds of names that `Names/names.txt` lacks: constants, non-ASCII identifiers, lifetimes, signatures.
  private static let others = [
    "_RINvC1a3fooKj4_Kan3_Kb1_Kc41_E", "_RNvC1au8gdel_5qa", "_RNvC1au9bcher_kva",
    "_RNvC1au30____7hkackfecea1cbdathfdh9hlq6y",
    "_RINvC1a3fooRL_eQSmPAhj10_OTsEE", "_RINvC1a3fooFG_RL0_hEuFUKCiEbE",
    "_RINvC1a3fooDG0_NtB2_5TraitL1_RL0_ep4ItemtEL_E",
    "_RNCNCNvC1a4mains_00", "_RNSC1as0_6vtable", "_RINvC1a3fooKoffffffffffffffffff_Kyp_KpE",
    "_RINvNtC1a1bNtB2_1cINtB4_1dTuEEE", "_RNvYhNtC1a5Trait3bar",
  ]

  @Test func fullNamesMatchBinutils() throws {
    let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "Names/names.txt")
    let listed = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
      .filter { $0.hasPrefix("_R") }.map { String($0.prefix { $0 != "\t" }) }
    try #require(listed.count > 50)
    let names = listed + Self.others
    // `-i` omits crate hashes.
    let child = try ChildProcess("/usr/bin/c++filt", ["-i"], input: Data(names.joined(separator: "\n").utf8))
    let expected = child.output.split(separator: "\n").map(String.init)
    try #require(expected.count == names.count)
    for (name, full) in zip(names, expected) { #expect(demangledName(name) == full, "\(name)") }
  }

  @Test func boundsRepetitiveNames() {
    for (length, count) in [(4, 100), (1000, 600), (60_000, 600)] {
      let part = String(repeating: "x", count: length)
      // The first argument, followed by backreferences to the argument.
      let full = demangledName("_RINvC1a1fC\(length)\(part)" + String(repeating: "B7_", count: count) + "E")
      #expect(full.utf8.count <= 200_000, "\(length), \(count)")
      if count == 100 { #expect(full.hasPrefix("a::f::<") && full.split(separator: part).count == 102) }
    }
  }

  @Test func legacyNamesMatchBinutils() throws {
    let names = [
      "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "_ZN3foo17h05af221e174051e9E.llvm.A5310EB9",
      "_ZN3foo17h05af221e174051e9E.llvm.123", "_ZN3foo17h05af221e174051e9E.cold", "_ZN3foo17haaaaaaaaaaaaaaaaE",
      "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
      "_ZN8$u7d$bar17h05af221e174051e9E", "_ZN10foo$XX$bar17h05af221e174051e9E",
      "_ZN13test$u20$test4foob17h05af221e174051e9E", "_ZN5foo..3bar17h05af221e174051e9E",
      "_ZN3foo17h05af221e174051e9EE", "_ZN35Bar$LT$$u5b$u32$u3b$$u20$4$u5d$$GT$E", "_ZN17h05af221e174051e9E",
      "_ZN4a.bc17h05af221e174051e9E", "_ZN3foo16h05af221e174051eE", "_ZN3foo17h05AF221E174051E9E",
    ]
    let child = try ChildProcess("/usr/bin/c++filt", ["-i"], input: Data(names.joined(separator: "\n").utf8))
    let expected = child.output.split(separator: "\n").map(String.init)
    try #require(expected.count == names.count)
    for (name, full) in zip(names, expected) { #expect(demangledName(name) == full, "\(name)") }
    // The binutils decode ASCII escapes only.
    #expect(demangledName("_ZN10caf$u8d5d$3bar17h05af221e174051e9E") == "caf\u{8d5d}::bar")
  }

  @Test func keepsDamagedNamesUnchanged() {
    for name in Self.others {
      for count in 2..<name.utf8.count { _ = demangledName(String(name.prefix(count))) }
    }
    for name in [
      "_R", "_RNvC1au5zzzzz", "_RNvC1au9bcher_kv", "_RINvC1aKhx_E", "_RNvB_1a", "_RINvC1a3fooL1_E", "_RNvC1a9b",
    ] {
      #expect(RustName(name)?.full != "" && demangledName(name).utf8.count > 0)
    }
    #expect(demangledName("_RNvC1a9b") == "_RNvC1a9b" && demangledName("_RNvB_1a") == "_RNvB_1a")
  }
}

@Suite struct FittedNameTests {
  @Test(arguments: [
    ("find(_:)", 20, "find(_:)"),
    ("closure #1 in closure #2 in closure #1 in load(from:)", 40, "closure #1 in … in load(from:)"),
    ("Catalog.rebuild(for:limit:options:progress:)", 30, "Catalog.rebuild(for:…)"),
    ("Warehouse.Shelf.Box.Catalog.rebuild(for:limit:)", 30, "…Catalog.rebuild(for:…)"),
    ("boost::asio::detail::executor_op::do_complete", 30, "…executor_op::do_complete"),
    ("aNameThatHasNothingThatCouldBeLeftOut()", 21, "aNameThatH…eLeftOut()"),
  ])
  func fitsNamesToLimit(name: String, limit: Int, fitted: String) {
    #expect(FunctionName.fitted(name, to: limit) == fitted)
  }

  @Test func marksMergedFunctionWithinLimit() {
    var frame = ResolvedFrame(
      function: "readDiscount(until:)",
      isMerged: true,
      module: "/shop",
      address: .file(FileAddress(1))
    )
    #expect(frame.displayName == "readDiscount(until:) or a function like it (merged by the compiler)")
    frame.function = String(repeating: "read", count: 30)
    #expect(frame.displayName.count == 100)
    #expect(frame.displayName.hasSuffix("(merged by the compiler)"))
  }
}

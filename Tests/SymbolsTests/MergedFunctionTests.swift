import CulpritStallRecord
import Testing

@testable import CulpritSymbols

/// Swift's optimizer merges functions that differ only in constants. The call identifies the original function.
@Suite(.ownThread) struct MergedFunctionTests {
  private static let program = """
    nonisolated(unsafe) var taxes = [Int](repeating: 3, count: 64)
    nonisolated(unsafe) var discounts = [Int](repeating: 5, count: 64)
    nonisolated(unsafe) var rates = [Int](repeating: 7, count: 64)
    @inline(never) func readDiscount(times: Int) -> Int {
      var sum = 0
      for _ in 0..<times { for i in 0..<64 { sum ^= discounts[i] &* 31 &+ sum } }
      return sum
    }
    @inline(never) func readTax(times: Int) -> Int {
      var sum = 0
      for _ in 0..<times { for i in 0..<64 { sum ^= taxes[i] &* 31 &+ sum } }
      return sum
    }
    @inline(never) private func readRate(times: Int) -> Int {
      var sum = 0
      for _ in 0..<times { for i in 0..<64 { sum ^= rates[i] &* 31 &+ sum } }
      return sum
    }
    @inline(never) func justTax(times: Int) -> Int { readTax(times: times) }
    @inline(never) func callTax(_ n: Int) -> Int { readTax(times: n) &+ 1 }
    @inline(never) func callDiscount(_ n: Int) -> Int { readDiscount(times: n) &+ 1 }
    @inline(never) func callRate(_ n: Int) -> Int { readRate(times: n) &+ 1 }
    @inline(never) func callEither(_ n: Int) -> Int {
      (n > 3 ? readTax(times: n) : readDiscount(times: n)) &+ 1
    }
    @inline(never) func callJust(_ n: Int) -> Int { justTax(times: n) &+ 1 }
    """

  private static let main = """
    @inline(never) func callFromOutside(_ n: Int) -> Int { readTax(times: n) &+ 1 }
    let n = CommandLine.arguments.count
    print(callTax(n), callDiscount(n), callRate(n), callEither(n), callJust(n), callFromOutside(n))
    """

  /// Returns the names of the merged function's frame, for each call of the function or its thunk in `caller`.
  private func names(calledIn caller: String, of file: String, _ fixture: Fixture) throws -> Set<String> {
    let listing = try fixture.run("objdump -d --no-show-raw-insn \(file)")
    var merged: UInt64?
    var isInside = false
    var wasCall = false
    var returns: [UInt64] = []
    for line in listing.split(separator: "\n") {
      if line.hasSuffix(">:") {
        isInside = line.contains(caller)
        wasCall = false
        if line.contains("times") && line.hasSuffix("FTm>:") { merged = UInt64(line.prefix { $0 != " " }, radix: 16) }
        continue
      }
      guard let colon = line.firstIndex(of: ":"), let address = UInt64(line[..<colon].drop { $0 == " " }, radix: 16)
      else { continue }
      if wasCall { returns.append(address) }
      wasCall = isInside && line.contains(/\b(call|bl)\b.*times/)
    }
    let start = try #require(merged)
    try #require(!returns.isEmpty, "no call in \(caller)")
    let symbolFile = try SymbolFile(ElfImage(path: fixture.path(file)), search: DebugSearch())
    return Set(
      returns.map { address in
        let frames =
          symbolFile.frames(at: FileAddress(start + 1), module: file)
          + symbolFile.frames(at: FileAddress(address - 1), module: file, isReturn: true)
        return frames.namingMergedFunctions()[0].displayName
      }
    )
  }

  @Test func identifiesMergedFunctionByCall() throws {
    let fixture = Fixture()
    try fixture.write(Self.program, "prices.swift")
    try fixture.write(Self.main, "main.swift")
    try fixture.run("swiftc -swift-version 6 -O -g -module-name shop prices.swift main.swift -o shop")
    // The fixture is useful only if the optimizer merged the functions.
    try #require(try fixture.run("nm shop").contains("FTm"))
    // The private function's name is not in the file, so the frame must not get another name.
    let unknown = try #require(try names(calledIn: "callRate", of: "shop", fixture).first)
    #expect(unknown.hasSuffix(" or a function like it (merged by the compiler)"))
    #expect(try names(calledIn: "callTax", of: "shop", fixture) == ["readTax(times:)"])
    #expect(try names(calledIn: "callDiscount", of: "shop", fixture) == ["readDiscount(times:)"])
    #expect(try names(calledIn: "callFromOutside", of: "shop", fixture) == ["readTax(times:)"])
    #expect(
      try names(calledIn: "callEither", of: "shop", fixture).isSubset(of: [
        unknown, "readTax(times:)", "readDiscount(times:)",
      ])
    )
    try fixture.run("strip --strip-debug shop -o stripped")
    #expect(try names(calledIn: "callTax", of: "stripped", fixture) == [unknown])
    #expect(try names(calledIn: "callFromOutside", of: "stripped", fixture) == ["readTax(times:)"])
  }

  @Test func marksThunksOfMergedFunctions() {
    func frame(_ function: String, _ kind: FunctionKind, isMerged: Bool = false) -> ResolvedFrame {
      ResolvedFrame(
        function: function,
        kind: kind,
        isMerged: isMerged,
        module: "/opt/shop",
        address: .file(FileAddress(1))
      )
    }
    let stack = [
      frame("closure in pay()", .function, isMerged: true), frame("closure in pay()", .thunk),
      frame("start()", .function), frame("closure in wait()", .thunk),
    ]
    #expect(stack.namingMergedFunctions().map(\.isMerged) == [true, true, false, false])
  }

  /// Compares calls and their targets with objdump.
  @Test func callsMatchDisassembler() throws {
    let path = try #require(loadedPath(containing: "/libswiftCore.so"))
    let image = try ElfImage(path: path)
    let section = try #require(image.sections.first { $0.isCode && $0.name == ".text" })
    let bytes = try #require(image.raw(section))
    let listing = try Fixture().run(
      "objdump -d --no-show-raw-insn -j .text \(path) | grep -E '^ ' | awk '{print $1,$2,$3,$4}'"
    )
    var followed = 0
    var targets: [UInt64: UInt64] = [:]
    for line in listing.split(separator: "\n") {
      let words = line.split(separator: " ")
      guard words.count > 2, words[1] == "call" || words[1] == "bl",
        let place = UInt64(words[0].dropLast(), radix: 16), let target = UInt64(words[2], radix: 16)
      else { continue }
      targets[place] = target
    }
    try #require(targets.count > 1000)
    let places = targets.keys.sorted()
    SymbolTable(image).forEach { range, name in
      guard range.start % 64 == 0, range.end - range.start < 4096,
        let part = bytes.part(range.start &- section.address, range.end - range.start),
        let transfers = MachineCode(part.array, start: range.start, isArm: image.machine == 183).transfers()
      else { return }
      followed += 1
      let expected = places[places.partitioningIndex { $0 >= range.start }...].prefix { $0 < range.end }.count
      let found = transfers.filter(\.isCall)
      if found.count != expected || found.contains(where: { targets[$0.place] != $0.target }) {
        Issue.record("\(name.string): \(found.count) calls of \(expected)")
      }
    }
    #expect(followed > 1000)
  }
}

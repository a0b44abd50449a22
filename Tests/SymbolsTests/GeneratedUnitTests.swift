import CulpritStallRecord
import SplitMix
import Testing

@testable import CulpritSymbols

/// Units that are written here at random, against what they were written for.
@Suite struct GeneratedUnitTests {
  /// A function, an inlined call, or a block in one of them.
  private struct Node {
    enum Kind { case function, inlined, block }
    var kind: Kind
    var pieces: [AddressRange]
    var children: [Node]
    /// Where the entry is, from the unit's beginning; written last.
    var entry = 0

    func contains(_ address: UInt64) -> Bool { pieces.contains { $0.contains(address) } }

    /// The entries of the inlined calls that `address` is in, of which each is in the one before.
    func inlined(at address: UInt64) -> [Int] {
      for child in children {
        switch child.kind {
        case .block:
          let found = child.inlined(at: address)
          if !found.isEmpty { return found }
        case .inlined: if child.contains(address) { return [child.entry] + child.inlined(at: address) }
        case .function: continue
        }
      }
      return []
    }

    var all: [Node] { [self] + children.flatMap(\.all) }
  }

  /// Something inside of `range`, in one piece or several with gaps.
  private func node(_ kind: Node.Kind, _ range: AddressRange, _ depth: Int, _ random: inout SplitMix) -> Node {
    var bounds = (0..<2 * (Int.random(in: 0..<3, using: &random) == 0 ? 3 : 1))
      .map { _ in UInt64.random(in: range.start...range.end, using: &random) }.sorted()
    if kind == .block { bounds = [range.start, range.end] }
    var pieces = stride(from: 0, to: bounds.count, by: 2).map { AddressRange(start: bounds[$0], end: bounds[$0 + 1]) }
      .filter { $0.start < $0.end }
    // Lists need not be in order.
    if Bool.random(using: &random) { pieces.reverse() }
    var children: [Node] = []
    if depth < 4, let first = pieces.first {
      var start = first.start
      while start < first.end, children.count < 3 {
        let end = UInt64.random(in: start...first.end, using: &random)
        let inner = [.inlined, .inlined, .block, .function].randomElement(using: &random) ?? Node.Kind.block
        children.append(node(inner, AddressRange(start: start, end: end), depth + 1, &random))
        start = end + 1
      }
    }
    return Node(kind: kind, pieces: pieces, children: children)
  }

  private static let base: UInt64 = 0x1000

  private static let abbreviationList = abbreviations([
    (1, 0x11, true, [(0x11, 0x01), (0x12, 0x07)]),
    // Functions and inlined calls with an address and a size, two addresses, or a list; with children and without.
    (2, 0x2e, true, [(0x11, 0x01), (0x12, 0x07)]), (3, 0x2e, false, [(0x11, 0x01), (0x12, 0x01)]),
    (4, 0x2e, true, [(0x55, 0x17)]), (5, 0x2e, false, [(0x55, 0x17)]),
    (6, 0x1d, true, [(0x11, 0x01), (0x12, 0x07), (0x58, 0x0b), (0x59, 0x0f), (0x57, 0x0b)]),
    (7, 0x1d, false, [(0x58, 0x0b), (0x59, 0x0f), (0x57, 0x0b), (0x11, 0x01), (0x12, 0x01)]),
    (8, 0x1d, true, [(0x58, 0x0b), (0x55, 0x17), (0x59, 0x0f), (0x57, 0x0b)]),
    (9, 0x1d, false, [(0x58, 0x0b), (0x59, 0x0f), (0x55, 0x17), (0x57, 0x0b)]), (10, 0x0b, true, []),
    // What lies between: a variable, a declaration, types with a way past their children and without, a name.
    (11, 0x34, false, [(0x03, 0x08), (0x3b, 0x0b)]), (12, 0x2e, true, [(0x03, 0x08)]),
    (13, 0x04, true, [(0x01, 0x13), (0x03, 0x08)]), (14, 0x13, true, [(0x01, 0x13)]), (15, 0x28, false, [(0x1c, 0x0d)]),
    (16, 0x01, true, [(0x03, 0x08)]), (17, 0x04, true, [(0x01, 0x13), (0x3b, 0x05)]),
  ])

  /// The place of a call, which follows from its entry.
  private func call(_ entry: Int) -> (file: Int, line: Int, column: Int) { (entry % 200, entry * 3, entry % 250) }

  private func write(_ node: inout Node, _ unit: inout ByteWriter, _ lists: inout ByteWriter, _ random: inout SplitMix)
  {
    writeSomethingElse(&unit, &random)
    node.entry = unit.count
    let hasChildren = !node.children.isEmpty
    guard node.kind != .block else {
      unit.u8(10)
      for place in node.children.indices { write(&node.children[place], &unit, &lists, &random) }
      return unit.u8(0)
    }
    let isList = node.pieces.count != 1
    let isFunction = node.kind == .function
    let list = lists.count
    if isList {
      // They count from the unit's beginning.
      for piece in node.pieces {
        lists.number(piece.start - Self.base, 8)
        lists.number(piece.end - Self.base, 8)
      }
      lists.number(0, 16)
    }
    let first = node.pieces.first ?? AddressRange(start: 0, end: 0)
    let (file, line, column) = call(node.entry)
    func writeLine(_ unit: inout ByteWriter) { unit.uleb(UInt64(line)) }
    unit.u8((isFunction ? 2 : 6) + (isList ? 2 : 0) + (hasChildren ? 0 : 1))
    func writeRange(_ unit: inout ByteWriter) {
      unit.number(first.start, 8)
      unit.number(hasChildren ? first.end - first.start : first.end, 8)
    }
    switch (isFunction, isList, hasChildren) {
    case (true, false, _): writeRange(&unit)
    case (true, true, _): unit.number(UInt64(list), 4)
    case (false, false, true):
      writeRange(&unit)
      unit.u8(file)
      writeLine(&unit)
      unit.u8(column)
    case (false, false, false):
      unit.u8(file)
      writeLine(&unit)
      unit.u8(column)
      writeRange(&unit)
    case (false, true, true):
      unit.u8(file)
      unit.number(UInt64(list), 4)
      writeLine(&unit)
      unit.u8(column)
    case (false, true, false):
      unit.u8(file)
      writeLine(&unit)
      unit.number(UInt64(list), 4)
      unit.u8(column)
    }
    guard hasChildren else { return }
    for place in node.children.indices { write(&node.children[place], &unit, &lists, &random) }
    unit.u8(0)
  }

  private func writeSomethingElse(_ unit: inout ByteWriter, _ random: inout SplitMix) {
    let kind = Int.random(in: 0..<12, using: &random)
    switch kind {
    case 0:
      unit.u8(11)
      unit.text("variable")
      unit.u8(3)
    case 1:
      unit.u8(12)
      unit.text("declaration")
      unit.append([11] + Array("inside\0".utf8) + [1, 0])
    case 2, 3, 4, 5:
      // A type, of which some say where its children end. Those that may hold functions are read all the same.
      unit.u8([13, 14, 16, 17][kind - 2])
      let place = unit.count
      if kind != 4 { unit.number(0, 4) }
      if kind == 2 || kind == 4 { unit.text("type") }
      if kind == 5 { unit.number(7, 2) }
      unit.append([15, 5, 15, 0x7b, 0])
      // One that leads backwards is not followed.
      let target = Bool.random(using: &random) ? unit.count : 2
      if kind != 4 { unit.put(UInt64(target), 4, at: place) }
    default: break
    }
  }

  @Test func everyAddressHasItsFunctionAndInlinedCalls() throws {
    let seed = UInt64.random(in: 0...(.max))
    var random = SplitMix(seed)
    for _ in 0..<80 {
      var functions: [Node] = []
      var start = Self.base
      for _ in 0..<Int.random(in: 1...5, using: &random) {
        let end = start + UInt64.random(in: 1...120, using: &random)
        functions.append(node(.function, AddressRange(start: start, end: end), 0, &random))
        // Some lie in each other.
        start = Int.random(in: 0..<3, using: &random) == 0 ? start + 3 : end
      }
      var (content, lists) = (ByteWriter(), ByteWriter())
      content.append([UInt8](repeating: 0, count: 11) + [1])
      content.number(Self.base, 8)
      content.number(0x1000, 8)
      for place in functions.indices { write(&functions[place], &content, &lists, &random) }
      writeSomethingElse(&content, &random)
      // Behind the end of the entries is what nobody wrote.
      content.append([0, 2, 0xff, 0xff, 0xff])
      // Entries count from their unit's beginning.
      let before = unit([UInt8](repeating: 0, count: Int.random(in: 0...50, using: &random)))
      let file = try #require(
        try madeUpDebugInformation([
          ".debug_info": before + unit(Array(content.bytes.dropFirst(11))), ".debug_abbrev": Self.abbreviationList,
          ".debug_ranges": lists.bytes,
        ])
      )
      let unit = file.unit(try #require(file.header(at: before.count)))
      let table = FunctionTable(unit)
      let everything = functions.flatMap(\.all)
      let scopes = everything.filter { $0.kind != .block && !$0.pieces.isEmpty }
      #expect((0..<table.count).map { Int(table[$0].entry) } == scopes.map(\.entry), "seed \(seed)")
      for number in 0..<min(table.count, scopes.count) where !table[number].isFunction {
        let (file, line, column) = call(scopes[number].entry)
        let scope = table[number]
        #expect(Int(scope.callFile) == file && Int(scope.callLine) == line && Int(scope.callColumn) == column)
      }
      let owners = scopes.filter { $0.kind == .function }
      for address in UInt64(0xff0)..<start + 130 {
        let covering = owners.flatMap { node in node.pieces.filter { $0.contains(address) }.map { ($0.start, node) } }
        // Of several the one that begins last; where they begin together, the one that is written last.
        let best = covering.max { ($0.0, $0.1.entry) < ($1.0, $1.1.entry) }
        let expected = best.map { [$0.1.entry] + $0.1.inlined(at: address) } ?? []
        #expect(table.chain(at: address).map { Int(table[$0].entry) } == expected, "seed \(seed), \(address)")
      }
    }
  }

  /// Functions whose pieces are more than are allowed for one list are all found: each list is read once.
  @Test func manyListsThatAreReadOnceAreAllRead() throws {
    var (content, lists) = (ByteWriter(), ByteWriter())
    content.append([1] + [UInt8](repeating: 0, count: 16))
    var address: UInt64 = 0x1000
    let (functions, pieces) = (700, 100)
    for _ in 0..<functions {
      content.u8(5)
      content.number(UInt64(lists.count), 4)
      for _ in 0..<pieces {
        lists.number(address, 8)
        lists.number(address + 1, 8)
        address += 2
      }
      lists.number(0, 16)
    }
    content.u8(0)
    let file = try #require(
      try madeUpDebugInformation([
        ".debug_info": unit(content.bytes), ".debug_abbrev": Self.abbreviationList, ".debug_ranges": lists.bytes,
      ])
    )
    let first = FunctionTable(file.unit(try #require(file.header(at: 0))))
    #expect(first.count == functions && first.chain(at: address - 2).count == 1 && first.chain(at: address - 1) == [])
    // Another unit is not the poorer for it.
    #expect(FunctionTable(file.unit(try #require(file.header(at: 0)))).count == functions)
  }

  /// A long list to which thousands refer is not read for each of them.
  @Test func aListThatIsReadOverAndOverIsReadABoundedNumberOfTimes() throws {
    var (content, lists) = (ByteWriter(), ByteWriter())
    content.append([1] + [UInt8](repeating: 0, count: 16))
    for number in 0..<1000 as Range<UInt64> {
      lists.number(0x1000 + 2 * number, 8)
      lists.number(0x1001 + 2 * number, 8)
    }
    lists.number(0, 16)
    for _ in 0..<1000 { content.append([5, 0, 0, 0, 0]) }
    content.u8(0)
    let file = try #require(
      try madeUpDebugInformation([
        ".debug_info": unit(content.bytes), ".debug_abbrev": Self.abbreviationList, ".debug_ranges": lists.bytes,
      ])
    )
    let header = try #require(file.header(at: 0))
    for _ in 0..<2 {
      let count = FunctionTable(file.unit(header)).count
      // Once in full for each 1000 of what one list may have and of the bytes of the section.
      #expect(count > 0 && count <= (65536 + lists.count) / 1000)
    }
  }

  /// Abbreviations that lie on top of each other are not read for ever.
  @Test func abbreviationsThatOverlapAreReadABoundedNumberOfTimes() throws {
    let list = abbreviations((1...200).map { (UInt64($0), 0x2e, false, [(0x03, 0x08)]) })
    let file = try #require(try madeUpDebugInformation([".debug_abbrev": list]))
    let encoding = UnitEncoding(version: 4, addressBytes: 8, isWide: false)
    let first = file.abbreviationTable(at: 0, encoding)
    #expect(first.byteCount == list.count && file.abbreviationTable(at: 0, encoding) === first)
    // For each way of writing numbers there is another.
    for (version, bytes, isWide) in [(2, 8, false), (4, 4, false), (4, 8, true)] as [(UInt16, UInt8, Bool)] {
      let other = UnitEncoding(version: version, addressBytes: bytes, isWide: isWide)
      #expect(
        file.abbreviationTable(at: 0, other) !== first && file.abbreviationTable(at: 0, other).byteCount == list.count
      )
    }
    // Begun at every other abbreviation: soon there is nothing any more.
    let bytes = (1..<190).map { file.abbreviationTable(at: $0 * 7, encoding).byteCount }
    #expect(bytes.reduce(0, +) <= 3 * list.count && bytes.last == 0)
    file.forgetUnits()
    #expect(file.abbreviationTable(at: 7 * 189, encoding).byteCount > 0)
    #expect(file.byteCount > 0)
  }
}

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

  /// A unit of version 4 around `content`, whose first byte is at 11.
  private func unit(_ content: [UInt8]) -> [UInt8] {
    ByteWriter.made { writer in
      writer.number(UInt64(content.count + 7), 4)
      writer.number(4, 2)
      writer.number(0, 4)
      writer.u8(8)
      writer.append(content)
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

  // MARK: Headers

  @Test func headersAreReadAsTheyWereWritten() {
    let seed = UInt64.random(in: 0...(.max))
    var random = SplitMix(seed)
    for _ in 0..<300 {
      let version = UInt64.random(in: 1...6, using: &random)
      let (isWide, isType) = (Bool.random(using: &random), version == 4 && Bool.random(using: &random))
      let addressBytes = [4, 8, 8, 2].randomElement(using: &random) ?? 8 as UInt64
      let kind = UInt64.random(in: 1...7, using: &random)
      let offset = isWide ? 8 : 4
      let (abbreviations, id) = (UInt64.random(in: 0...1 << 31, using: &random), random.next())
      let distance = UInt64.random(in: 0...100, using: &random)
      var unit = ByteWriter()
      unit.number(version, 2)
      if version >= 5 {
        unit.append([UInt8(kind), UInt8(addressBytes)])
        unit.number(abbreviations, offset)
        if kind == 4 || kind == 5 { unit.number(id, 8) }
      } else {
        unit.number(abbreviations, offset)
        unit.u8(addressBytes)
      }
      let isOfType = isType || version >= 5 && (kind == 2 || kind == 6)
      if isOfType {
        unit.number(id, 8)
        unit.number(distance, offset)
      }
      let entries = Int.random(in: 0...30, using: &random)
      let headerBytes = unit.count + (isWide ? 12 : 4)
      unit.append([UInt8](repeating: 1, count: entries))
      let before = Int.random(in: 0...9, using: &random)
      let content = ByteWriter.made { writer in
        writer.append([UInt8](repeating: 0xcc, count: before))
        if isWide { writer.number(0xffff_ffff, 4) }
        writer.number(UInt64(unit.count), offset)
        writer.append(unit.bytes)
      }
      let memory = MadeUpBytes(content + [1, 2, 3])
      let header = UnitHeader(memory.bytes, at: before, isType: isType)
      let note = "seed \(seed), version \(version), kind \(kind)"
      #expect(header?.offset == before && header?.end == content.count, "\(note)")
      let isKnown = (2...5).contains(version) && addressBytes != 2
      #expect(header?.firstEntry == (isKnown ? before + headerBytes : content.count), "\(note)")
      #expect(header?.abbreviations == Int(abbreviations) && header?.encoding.isWide == isWide, "\(note)")
      #expect(header.map { UInt64($0.encoding.version) } == version, "\(note)")
      #expect(header.map { UInt64($0.encoding.addressBytes) } == addressBytes, "\(note)")
      #expect(header?.splitID == (version >= 5 && (kind == 4 || kind == 5) ? id : nil), "\(note)")
      let isInside = isOfType && Int(distance) < content.count - before
      #expect(header?.type?.signature == (isInside ? id : nil), "\(note)")
      #expect(header?.type?.entry == (isInside ? before + Int(distance) : nil), "\(note)")
      // Cut anywhere, it is none.
      let cut = MadeUpBytes(Array(content.dropLast(Int.random(in: 1...content.count - before, using: &random))))
      #expect(UnitHeader(cut.bytes, at: before, isType: isType) == nil, "\(note)")
    }
  }

  /// Lengths that mean something else, and units that are too short for what they have to begin with.
  @Test func headersThatMakeNoSenseAreNone() {
    for (content, isHeader) in [
      ([2, 0, 0, 0, 4, 0], false), ([3, 0, 0, 0, 4, 0, 0], false), ([7, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8], true),
      ([6, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8], false), ([0xf0, 0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0, 8], false),
      ([0xff, 0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0, 8], false),
    ] as [([UInt8], Bool)] {
      let memory = MadeUpBytes(content)
      #expect((UnitHeader(memory.bytes, at: 0) != nil) == isHeader, "\(content)")
    }
  }

  /// Every entry is in the unit that surrounds it, in whatever order they are asked for.
  @Test func entriesAreInTheUnitsAroundThem() throws {
    let seed = UInt64.random(in: 0...(.max))
    var random = SplitMix(seed)
    let units = (0..<20).map { _ in unit([UInt8](repeating: 1, count: Int.random(in: 0...40, using: &random))) }
    var starts: [Int] = []
    var content: [UInt8] = []
    for unit in units {
      starts.append(content.count)
      content += unit
    }
    let sections = [".debug_info": content + [0, 0, 0]]
    let file = try #require(try madeUpDebugInformation(sections))
    for offset in (-1...content.count + 5).shuffled(using: &random) {
      let expected = (0..<content.count).contains(offset) ? starts.last { $0 <= offset } : nil
      #expect(file.header(containing: offset)?.offset == expected, "seed \(seed), \(offset)")
    }
    #expect(file.allHeaders.map(\.offset) == starts)
    #expect(try #require(try madeUpDebugInformation(sections)).allHeaders.map(\.offset) == starts)
    // The first entry that is asked for may be that at a unit's beginning.
    for start in starts {
      #expect(try madeUpDebugInformation(sections)?.header(containing: start)?.offset == start, "seed \(seed)")
    }
    #expect(starts.allSatisfy { file.header(at: $0)?.offset == $0 } && file.header(at: -1) == nil)
    #expect(file.header(at: content.count + 3) == nil)
    #expect(try madeUpDebugInformation([".debug_info": [1, 2, 3]])?.header(containing: 1)?.offset == nil)
  }

  /// Only types that contain no functions are passed over.
  @Test(arguments: [0x02, 0x13, 0x17, 0x34, 0x39] as [UInt16]) func functionsInOtherEntriesAreFound(tag: UInt16) throws
  {
    let list = abbreviations([
      (1, 0x11, true, [(0x11, 0x01), (0x12, 0x06)]), (2, tag, true, [(0x01, 0x13)]),
      (3, 0x2e, false, [(0x11, 0x01), (0x12, 0x06)]),
    ])
    var content = ByteWriter()
    content.u8(1)
    content.number(0x1000, 8)
    content.number(0x100, 4)
    content.u8(2)
    content.number(UInt64(11 + content.count + 4 + 13 + 1), 4)
    content.u8(3)
    content.number(0x1000, 8)
    content.number(0x10, 4)
    content.append([0, 0])
    let file = try #require(try madeUpDebugInformation([".debug_info": unit(content.bytes), ".debug_abbrev": list]))
    let table = FunctionTable(file.unit(try #require(file.header(at: 0))))
    #expect(table.count == 1 && table.chain(at: 0x1008) == [0])
  }

  // MARK: Which unit

  /// Ranges of units in `.debug_aranges`, in both formats, beside sets that nobody can read.
  @Test func unitsAreFoundByTheirAddressRanges() throws {
    let seed = UInt64.random(in: 0...(.max))
    var random = SplitMix(seed)
    for _ in 0..<60 {
      var section = ByteWriter()
      var expected: [(range: AddressRange, unit: Int)] = []
      var known: Set<Int> = []
      for number in 0..<Int.random(in: 1...6, using: &random) {
        let isWide = Bool.random(using: &random)
        let offset = number * 100 + 7
        let version = Int.random(in: 0..<6, using: &random) == 0 ? 3 : 2
        let addressBytes = [4, 8, 8, 2].randomElement(using: &random) ?? 8
        let selectorBytes = Int.random(in: 0..<6, using: &random) == 0 ? 4 : 0
        let isRead = version == 2 && selectorBytes == 0 && addressBytes != 2
        var set = ByteWriter()
        set.number(UInt64(version), 2)
        set.number(UInt64(offset), isWide ? 8 : 4)
        set.append([UInt8(addressBytes), UInt8(selectorBytes)])
        let before = isWide ? 12 : 4
        while (before + set.count) % (2 * addressBytes) != 0 { set.u8(0xee) }
        for _ in 0..<Int.random(in: 0...5, using: &random) {
          let start = UInt64.random(in: 0...60, using: &random) * 4
          let size = UInt64.random(in: 0...40, using: &random)
          // Two zeros are the end.
          if start == 0, size == 0 { continue }
          set.number(start, addressBytes)
          set.number(size, addressBytes)
          if isRead, start != 0, size != 0 { expected.append((AddressRange(start: start, end: start + size), offset)) }
        }
        if isRead { known.insert(offset) }
        if Bool.random(using: &random) {
          // One that passes the end of all addresses, the end of the list, and what is behind that.
          if addressBytes == 8 {
            set.number(.max - 3, 8)
            set.number(.max, 8)
          }
          set.number(0, 2 * addressBytes)
          if addressBytes != 2 {
            set.number(0x20, addressBytes)
            set.number(0x1000, addressBytes)
          }
        }
        if isWide { section.number(0xffff_ffff, 4) }
        section.number(UInt64(set.count), isWide ? 8 : 4)
        section.append(set.bytes)
      }
      let file = try #require(try madeUpDebugInformation([".debug_aranges": section.bytes]))
      let (index, units) = UnitIndex.fromAddressRanges(file)
      #expect(units == known, "seed \(seed)")
      for address in 0..<300 as Range<UInt64> {
        let covering = expected.filter { $0.range.contains(address) }
        let latest = covering.map(\.range.start).max()
        let unit = covering.filter { $0.range.start == latest }.map(\.unit).min()
        #expect(index.unit(at: address) == unit, "seed \(seed), \(address)")
        let sorted = expected.sorted { ($0.range.start, $1.unit) < ($1.range.start, $0.unit) }
        let behind = sorted.firstIndex { $0.range.start > address } ?? sorted.count
        let beside = [behind - 1, behind].filter(sorted.indices.contains).map { sorted[$0].unit }
        #expect(index.units(beside: address) == beside, "seed \(seed), \(address)")
      }
    }
  }

  /// What `.debug_aranges` does not list is found in the units: those of code, not those that others include.
  @Test func unitsAreFoundByTheirOwnRanges() throws {
    let list = abbreviations([
      (1, 0x11, false, [(0x11, 0x01), (0x12, 0x06)]), (2, 0x3c, false, [(0x11, 0x01), (0x12, 0x06)]),
      (3, 0x4a, false, [(0x55, 0x17)]), (4, 0x11, false, [(0x11, 0x01), (0x12, 0x01)]),
    ])
    func entry(_ code: UInt8, _ numbers: [(UInt64, Int)]) -> [UInt8] {
      unit(
        ByteWriter.made { writer in
          writer.u8(code)
          for (number, width) in numbers { writer.number(number, width) }
        }
      )
    }
    let units = [
      entry(1, [(0x1000, 8), (0x100, 4)]), entry(2, [(0x1100, 8), (0x100, 4)]), entry(3, [(0, 4)]),
      entry(4, [(0x3000, 8), (0x3010, 8)]), entry(1, [(0x1080, 8), (0x10, 4)]), entry(1, [(0x1000, 8), (0x20, 4)]),
      entry(1, [(0, 8), (0x20, 4)]), entry(1, [(0x5000, 8), (0, 4)]),
    ]
    let starts = units.indices.map { units[..<$0].reduce(0) { $0 + $1.count } }
    let file = try #require(
      try madeUpDebugInformation([
        ".debug_info": units.flatMap { $0 }, ".debug_abbrev": list,
        ".debug_ranges": ByteWriter.made { writer in
          for number in [0x2000, 0x2004, 0x2008, 0x200c, 0, 0] as [UInt64] { writer.number(number, 8) }
        },
      ])
    )
    func found(_ known: Set<Int>, _ addresses: [UInt64]) -> [Int?] {
      let index = UnitIndex.fromUnits(file, except: known)
      return addresses.map { index.unit(at: $0).flatMap(starts.firstIndex) }
    }
    let addresses: [UInt64] = [
      0xfff, 0x1000, 0x101f, 0x1020, 0x107f, 0x1080, 0x108f, 0x1090, 0x10ff, 0x1100, 0x2003, 0x2004, 0x2008, 0x200c,
      0x3000, 0x300f, 0x3010, 0x10, 0x5000,
    ]
    let all: [Int?] = [nil, 0, 0, 0, 0, 4, 4, 0, 0, nil, 2, nil, 2, nil, 3, 3, nil, nil, nil]
    #expect(found([], addresses) == all)
    let others: [Int?] = [nil, 5, 5, nil, nil, 4, 4, nil, nil, nil, 2, nil, 2, nil, nil, nil, nil, nil, nil]
    #expect(found([0, starts[3]], addresses) == others)
  }

  /// A unit of Swift belongs to the module whose entry has the directory of the unit's file; modules inside of others, and
  /// those that it imports, are others.
  @Test func theModuleOfAUnitIsThatOfItsDirectory() throws {
    let list = abbreviations([
      (1, 0x11, true, [(0x03, 0x08), (0x1b, 0x08), (0x11, 0x01), (0x12, 0x06)]),
      (2, 0x1e, true, [(0x03, 0x08), (0x3e00, 0x08)]), (3, 0x34, false, [(0x03, 0x08), (0x3e00, 0x08)]),
    ])
    func module(_ modules: [(code: UInt8, name: String, place: String)]) throws -> CompilationUnit? {
      var content = ByteWriter()
      content.u8(1)
      content.text("Sources/a.swift")
      content.text("/work")
      content.number(0x1000, 8)
      content.number(0x100, 4)
      for (code, name, place) in modules {
        content.u8(code & 0xf)
        content.text(name)
        content.text(place)
        // One inside of it.
        if code == 0x12 {
          content.append([2] + Array("Inner\0/work/Sources\0".utf8) + [0, 0])
        } else if code == 2 {
          content.u8(0)
        }
      }
      content.u8(0)
      let before = unit([UInt8](repeating: 0, count: 30))
      let file = try #require(
        try madeUpDebugInformation([".debug_info": before + unit(content.bytes), ".debug_abbrev": list])
      )
      return DebugInformation(file) { _ in nil }.compilation(at: 0x1080)
    }
    let own = (2 as UInt8, "Own", "/work/Sources")
    let found = try module([(2, "Swift", "/usr/lib/Swift.swiftmodule"), own])
    #expect(found?.swiftModule == "Own" && found?.path == "/work/Sources/a.swift")
    #expect(try module([own, (2, "Other", "/work/Other")])?.swiftModule == "Own")
    #expect(try module([(0x12, "Outer", "/elsewhere")])?.swiftModule == nil)
    #expect(try module([(3, "NoModule", "/work/Sources")])?.swiftModule == nil)
    // A directory that merely begins alike, and one that is relative.
    #expect(try module([(2, "Alike", "/work/Sour"), (2, "Relative", "work/Sources")])?.swiftModule == nil)
    #expect(try module([])?.swiftModule == nil)
  }

  // MARK: Names

  /// Names are looked up through sixteen entries, and no more.
  @Test func chainsOfReferencesHaveAnEnd() throws {
    let list = abbreviations([
      (1, 0x11, true, [(0x11, 0x01), (0x12, 0x06)]), (2, 0x2e, false, [(0x11, 0x01), (0x12, 0x06), (0x47, 0x13)]),
      (3, 0x2e, false, [(0x47, 0x13)]), (4, 0x2e, false, [(0x03, 0x08)]),
    ])
    for length in 1...20 {
      var content = ByteWriter()
      content.u8(1)
      content.number(0x1000, 8)
      content.number(0x100, 4)
      content.u8(2)
      content.number(0x1000, 8)
      content.number(0x10, 4)
      // The entries of the chain have five bytes each; the first follows.
      for _ in 0..<length - 1 {
        content.number(UInt64(11 + content.count + 4), 4)
        content.u8(3)
      }
      content.number(UInt64(11 + content.count + 4), 4)
      content.u8(4)
      content.text("written")
      content.u8(0)
      let file = try #require(
        try madeUpDebugInformation([".debug_info": unit(content.bytes), ".debug_abbrev": list])
      )
      let found = DebugInformation(file) { _ in nil }.calls(at: 0x1008)
      #expect(found.map { $0.name?.string } == [length < 16 ? "written" : nil], "\(length)")
    }
  }

  /// A reference that counts from the unit's beginning does not leave the unit; one that counts from the section's does.
  @Test func referencesStayInTheirUnit() throws {
    for (form, isFound) in [(0x13, false), (0x10, true)] as [(UInt16, Bool)] {
      let list = abbreviations([
        (1, 0x11, true, [(0x11, 0x01), (0x12, 0x06)]), (2, 0x2e, false, [(0x11, 0x01), (0x12, 0x06), (0x47, form)]),
        (3, 0x2e, false, [(0x03, 0x08)]), (4, 0x11, true, []),
      ])
      var content = ByteWriter()
      for code in [1, 2] {
        content.u8(code)
        content.number(0x1000, 8)
        content.number(0x10, 4)
      }
      // Behind this unit and the header and first entry of the next.
      content.number(UInt64(11 + content.count + 5 + 12), 4)
      content.u8(0)
      let other = unit([4, 3] + Array("elsewhere".utf8) + [0, 0])
      let file = try #require(
        try madeUpDebugInformation([".debug_info": unit(content.bytes) + other, ".debug_abbrev": list])
      )
      let found = DebugInformation(file) { _ in nil }.calls(at: 0x1008)
      #expect(found.map { $0.name?.string } == [isFound ? "elsewhere" : nil])
    }
  }

  /// An entry's own name for linkers comes first, then that of what it is a copy of, then what is written.
  @Test func theBestOfTheNamesIsTaken() throws {
    // By their attributes: a name, a name for linkers, an origin, a declaration.
    let forms: [(UInt16, UInt16)] = [(0x03, 0x08), (0x6e, 0x08), (0x31, 0x13), (0x47, 0x13)]
    let base: [(UInt16, UInt16)] = [(0x11, 0x01), (0x12, 0x06)]
    var list: [(code: UInt64, tag: UInt16, hasChildren: Bool, [(UInt16, UInt16)])] = [(1, 0x11, true, base)]
    for set in 0..<16 {
      let own = forms.indices.filter { set & (1 << $0) != 0 }.map { forms[$0] }
      list.append((UInt64(2 + set), 0x2e, false, base + own))
    }
    list += [(20, 0x2e, false, [(0x03, 0x08)]), (21, 0x2e, false, [(0x03, 0x08), (0x2007, 0x08)])]
    // The two that are referred to: one with a name, one with a name for linkers, too.
    for isLinked in [false, true] {
      var content = ByteWriter()
      content.u8(1)
      content.number(0x1000, 8)
      content.number(0x1000, 4)
      let origin = 11 + content.count
      content.u8(isLinked ? 21 : 20)
      content.text("origin")
      if isLinked { content.text("_origin") }
      let declaration = 11 + content.count
      content.u8(20)
      content.text("declaration")
      for set in 0..<16 {
        content.u8(2 + set)
        content.number(0x1000 + UInt64(set) * 16, 8)
        content.number(16, 4)
        if set & 1 != 0 { content.text("own") }
        if set & 2 != 0 { content.text("_own") }
        if set & 4 != 0 { content.number(UInt64(origin), 4) }
        if set & 8 != 0 { content.number(UInt64(declaration), 4) }
      }
      content.u8(0)
      let file = try #require(
        try madeUpDebugInformation([".debug_info": unit(content.bytes), ".debug_abbrev": abbreviations(list)])
      )
      let information = DebugInformation(file) { _ in nil }
      for set in 0..<16 {
        let expected: String?
        switch set {
        case _ where set & 2 != 0: expected = "_own"
        case _ where set & 4 != 0 && isLinked: expected = "_origin"
        case _ where set & 1 != 0: expected = "own"
        case _ where set & 4 != 0: expected = "origin"
        case _ where set & 8 != 0: expected = "declaration"
        default: expected = nil
        }
        for _ in 0..<2 {
          let found = information.calls(at: 0x1003 + UInt64(set) * 16)
          #expect(found.map { $0.name?.string } == [expected], "\(set)")
          #expect(found.first?.isLinkageName == (expected?.hasPrefix("_") ?? false) && found.first?.isInlined == false)
        }
      }
    }
  }
}

import CulpritStallRecord
import Testing

@testable import CulpritSymbols

@Suite struct GeneratedUnitTests {
  private static let abbreviationList = abbreviations([
    (1, 0x11, true, [(0x11, 0x01), (0x12, 0x07)]),
    // Functions and inlined calls with address and size, two addresses, or a list; with children and without.
    (2, 0x2e, true, [(0x11, 0x01), (0x12, 0x07)]), (3, 0x2e, false, [(0x11, 0x01), (0x12, 0x01)]),
    (4, 0x2e, true, [(0x55, 0x17)]), (5, 0x2e, false, [(0x55, 0x17)]),
    (6, 0x1d, true, [(0x11, 0x01), (0x12, 0x07), (0x58, 0x0b), (0x59, 0x0f), (0x57, 0x0b)]),
    (7, 0x1d, false, [(0x58, 0x0b), (0x59, 0x0f), (0x57, 0x0b), (0x11, 0x01), (0x12, 0x01)]),
    (8, 0x1d, true, [(0x58, 0x0b), (0x55, 0x17), (0x59, 0x0f), (0x57, 0x0b)]),
    (9, 0x1d, false, [(0x58, 0x0b), (0x59, 0x0f), (0x55, 0x17), (0x57, 0x0b)]), (10, 0x0b, true, []),
    // Other entries: a variable, a declaration, types with and without a sibling reference, a name.
    (11, 0x34, false, [(0x03, 0x08), (0x3b, 0x0b)]), (12, 0x2e, true, [(0x03, 0x08)]),
    (13, 0x04, true, [(0x01, 0x13), (0x03, 0x08)]), (14, 0x13, true, [(0x01, 0x13)]), (15, 0x28, false, [(0x1c, 0x0d)]),
    (16, 0x01, true, [(0x03, 0x08)]), (17, 0x04, true, [(0x01, 0x13), (0x3b, 0x05)]),
  ])

  @Test func findsFunctionsAndInlinedCalls() throws {
    var made: (file: DwarfFile, table: FunctionTable)?
    var (scope, first, chain) = (0, UInt64(0), [Int]())
    for line in try generatedLines("units.txt") {
      if line[0] == "unit" {
        let file = try #require(
          try madeUpDebugInformation([
            ".debug_info": bytes(line[2]), ".debug_abbrev": Self.abbreviationList,
            ".debug_ranges": line.count > 3 ? bytes(line[3]) : [],
          ])
        )
        let start = try #require(Int(line[1]))
        made = (file, FunctionTable(file.unit(try #require(file.header(at: start)))))
        (scope, first, chain) = (0, 0xff0, [])
        continue
      }
      let table = try #require(made?.table)
      let numbers = line[1...].compactMap { Int($0) }
      if line[0] == "scope" {
        try #require(scope < table.count)
        let found = table[scope]
        #expect(Int(found.entry) == numbers[0] && found.isFunction == (numbers.count == 1), "\(line)")
        let call = [Int(found.callFile), Int(found.callLine), Int(found.callColumn)]
        if !found.isFunction { #expect(call == Array(numbers[1...]), "\(line)") }
        scope += 1
        continue
      }
      #expect(scope == table.count)
      for address in first..<UInt64(numbers[0]) {
        #expect(table.chain(at: address).map { Int(table[$0].entry) } == chain, "\(line), \(address)")
      }
      (first, chain) = (UInt64(numbers[0]), Array(numbers[1...]))
    }
    #expect(made != nil)
  }

  @Test func readsManyDistinctRangeLists() throws {
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
    #expect(FunctionTable(file.unit(try #require(file.header(at: 0)))).count == functions)
  }

  @Test func boundsRepeatedRangeListReads() throws {
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
      // Each full read has 1000 entries. The limit is 65536 plus the section's bytes.
      #expect(count > 0 && count <= (65536 + lists.count) / 1000)
    }
  }

  @Test func boundsOverlappingAbbreviationReads() throws {
    let list = abbreviations((1...200).map { (UInt64($0), 0x2e, false, [(0x03, 0x08)]) })
    let file = try #require(try madeUpDebugInformation([".debug_abbrev": list]))
    let encoding = UnitEncoding(version: 4, addressBytes: 8, isWide: false)
    let first = file.abbreviationTable(at: 0, encoding)
    #expect(first.byteCount == list.count && file.abbreviationTable(at: 0, encoding) === first)
    for (version, bytes, isWide) in [(2, 8, false), (4, 4, false), (4, 8, true)] as [(UInt16, UInt8, Bool)] {
      let other = UnitEncoding(version: version, addressBytes: bytes, isWide: isWide)
      #expect(
        file.abbreviationTable(at: 0, other) !== first && file.abbreviationTable(at: 0, other).byteCount == list.count
      )
    }
    let bytes = (1..<190).map { file.abbreviationTable(at: $0 * 7, encoding).byteCount }
    #expect(bytes.reduce(0, +) <= 3 * list.count && bytes.last == 0)
    file.forgetUnits()
    #expect(file.abbreviationTable(at: 7 * 189, encoding).byteCount > 0)
    #expect(file.byteCount > 0)
  }
}

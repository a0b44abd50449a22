import CulpritStallRecord
import SplitMix
import Testing

@testable import CulpritSymbols

@Suite struct UnitLookupTests {
  // MARK: Headers

  @Test func roundTripsUnitHeaders() {
    let seed: UInt64 = 20_261
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
      let cut = MadeUpBytes(Array(content.dropLast(Int.random(in: 1...content.count - before, using: &random))))
      #expect(UnitHeader(cut.bytes, at: before, isType: isType) == nil, "\(note)")
    }
  }

  @Test func rejectsInvalidHeaders() {
    for (content, isHeader) in [
      ([2, 0, 0, 0, 4, 0], false), ([3, 0, 0, 0, 4, 0, 0], false), ([7, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8], true),
      ([6, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8], false), ([0xf0, 0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0, 8], false),
      ([0xff, 0xff, 0xff, 0xff, 4, 0, 0, 0, 0, 0, 8], false),
    ] as [([UInt8], Bool)] {
      let memory = MadeUpBytes(content)
      #expect((UnitHeader(memory.bytes, at: 0) != nil) == isHeader, "\(content)")
    }
  }

  @Test func findsUnitContainingEntry() throws {
    let seed: UInt64 = 20_261
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
    for start in starts {
      #expect(try madeUpDebugInformation(sections)?.header(containing: start)?.offset == start, "seed \(seed)")
    }
    #expect(starts.allSatisfy { file.header(at: $0)?.offset == $0 } && file.header(at: -1) == nil)
    #expect(file.header(at: content.count + 3) == nil)
    #expect(try madeUpDebugInformation([".debug_info": [1, 2, 3]])?.header(containing: 1)?.offset == nil)
  }

  @Test func rejectsOffsetsOutsideSection() throws {
    let content = (0..<50).flatMap { _ in unit([1, 1, 1]) }
    for offset in [.min, -1, content.count, content.count + 1, .max] {
      let file = try #require(try madeUpDebugInformation([".debug_info": content]))
      let before = file.byteCount
      #expect(file.header(containing: offset) == nil && file.byteCount == before, "\(offset)")
    }
  }

  @Test func releasesMemoryOfForgottenUnits() throws {
    let list = abbreviations([
      (1, 0x11, true, [(0x11, 0x01), (0x12, 0x06)]), (2, 0x2e, false, [(0x03, 0x08), (0x11, 0x01), (0x12, 0x06)]),
    ])
    let starts = (1...40).map { UInt64($0) * 0x1000 }
    let units = starts.flatMap { start in
      unit(
        ByteWriter.made { writer in
          writer.u8(1)
          writer.number(start, 8)
          writer.number(0x100, 4)
          writer.u8(2)
          writer.text("function at \(start)")
          writer.number(start, 8)
          writer.number(0x10, 4)
          writer.u8(0)
        }
      )
    }
    let sections = [".debug_info": units, ".debug_abbrev": list]
    let information = DebugInformation(try #require(try madeUpDebugInformation(sections))) { _ in nil }
    let untouched = try #require(try madeUpDebugInformation(sections))
    #expect(untouched.allHeaders.count == starts.count)
    for _ in 0..<2 {
      for start in starts {
        #expect(information.calls(at: start + 8).map { $0.name?.string } == ["function at \(start)"])
      }
      #expect(information.byteCount > untouched.byteCount)
      information.forgetUnits()
      #expect(information.byteCount == untouched.byteCount)
    }
  }

  @Test func readsRangeTablePerUnit() throws {
    let list = abbreviations([(1, 0x11, false, [(0x55, 0x23), (0x74, 0x17)])])
    var (units, lists) = (ByteWriter(), ByteWriter())
    let starts: [UInt64] = [0x1000, 0x2000, 0x3000]
    for start in starts {
      let both = [start, start + 0x100]
        .map { start in
          ByteWriter.made { writer in
            writer.u8(7)
            writer.number(start, 8)
            writer.append([0x10, 0])
          }
        }
      let contribution = ByteWriter.made { writer in
        writer.number(5, 2)
        writer.append([8, 0])
        writer.number(2, 4)
        writer.number(8, 4)
        writer.number(UInt64(8 + both[0].count), 4)
        writer.append(both[0] + both[1])
      }
      lists.number(UInt64(contribution.count), 4)
      let base = UInt64(lists.count + 8)
      lists.append(contribution)
      let content = ByteWriter.made { writer in
        writer.number(5, 2)
        writer.append([1, 8])
        writer.number(0, 4)
        writer.append([1, 1])
        writer.number(base, 4)
      }
      units.number(UInt64(content.count), 4)
      units.append(content)
    }
    let file = try #require(
      try madeUpDebugInformation([".debug_info": units.bytes, ".debug_abbrev": list, ".debug_rnglists": lists.bytes])
    )
    #expect(
      file.allHeaders.map { file.unit($0).codeRanges }
        == starts.map { [AddressRange(start: $0 + 0x100, end: $0 + 0x110)] }
    )
  }

  @Test(arguments: [0x02, 0x13, 0x17, 0x34, 0x39] as [UInt16]) func findsFunctionsInNestedEntries(tag: UInt16) throws {
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

  // MARK: Units by address

  @Test func findsUnitsByAddressRanges() throws {
    let seed: UInt64 = 20_261
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
          // Two zeros end the list.
          if start == 0, size == 0 { continue }
          set.number(start, addressBytes)
          set.number(size, addressBytes)
          if isRead, start != 0, size != 0 { expected.append((AddressRange(start: start, end: start + size), offset)) }
        }
        if isRead { known.insert(offset) }
        if Bool.random(using: &random) {
          // An entry beyond the highest address, the end of the list, and bytes after the end.
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

  @Test func findsUnitsByOwnRanges() throws {
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

  @Test func readsLongRangeListsOfSeveralUnits() throws {
    let list = abbreviations([(1, 0x11, false, [(0x55, 0x17)])])
    let count: UInt64 = 1 << 16
    let first = unit([1, 0, 0, 0, 0])
    let second = unit(
      ByteWriter.made { writer in
        writer.u8(1)
        writer.number(16 * count + 16, 4)
      }
    )
    let ranges = ByteWriter.made { writer in
      for number in 1...count + 1 {
        if number > count { writer.number(0, 16) }
        writer.number(2 * number, 8)
        writer.number(2 * number + 1, 8)
      }
    }
    let sections = [".debug_info": first + second, ".debug_abbrev": list, ".debug_ranges": ranges]
    let file = try #require(try madeUpDebugInformation(sections))
    let index = UnitIndex.fromUnits(file, except: [])
    #expect(index.unit(at: 2) == 0 && index.unit(at: 2 * count + 2) == first.count)
  }

  /// A Swift unit belongs to the module whose entry has the directory of the unit's file. Nested and imported modules
  /// do not count.
  @Test func findsModuleByUnitDirectory() throws {
    let list = abbreviations([
      (1, 0x11, true, [(0x03, 0x08), (0x1b, 0x08), (0x11, 0x01), (0x12, 0x06)]),
      (2, 0x1e, true, [(0x03, 0x08), (0x3e00, 0x08)]), (3, 0x34, false, [(0x03, 0x08), (0x3e00, 0x08)]),
    ])
    func module(_ modules: [(code: UInt8, name: String, place: String)]) throws -> CompilationUnit? {
      var content = ByteWriter()
      content.u8(1)
      content.text("Sources/a.swift")
      content.text("/shop")
      content.number(0x1000, 8)
      content.number(0x100, 4)
      for (code, name, place) in modules {
        content.u8(code & 0xf)
        content.text(name)
        content.text(place)
        if code == 0x12 {
          content.append([2] + Array("Inner\0/shop/Sources\0".utf8) + [0, 0])
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
    let own = (2 as UInt8, "Own", "/shop/Sources")
    let found = try module([(2, "Swift", "/usr/lib/Swift.swiftmodule"), own])
    #expect(found?.swiftModule == "Own" && found?.path == "/shop/Sources/a.swift")
    #expect(try module([own, (2, "Other", "/shop/Other")])?.swiftModule == "Own")
    #expect(try module([(0x12, "Outer", "/elsewhere")])?.swiftModule == nil)
    #expect(try module([(3, "NoModule", "/shop/Sources")])?.swiftModule == nil)
    #expect(try module([(2, "Alike", "/shop/Sour"), (2, "Relative", "shop/Sources")])?.swiftModule == nil)
    #expect(try module([])?.swiftModule == nil)
  }
}

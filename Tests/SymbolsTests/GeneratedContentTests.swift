import Foundation
import SplitMix
import Testing

@testable import CulpritSymbols

@Suite(.ownThread) struct GeneratedContentTests {
  /// A stream of uncompressed blocks (RFC 1950).
  private func stream(_ content: [UInt8]) -> [UInt8] {
    var writer = ByteWriter()
    writer.append([0x78, 0x01])
    var place = 0
    repeat {
      let count = min(content.count - place, 0x7fff)
      writer.u8(place + count == content.count ? 1 : 0)
      writer.number(UInt64(count), 2)
      writer.number(UInt64(~UInt16(count)), 2)
      writer.append(content[place..<place + count])
      place += count
    } while place < content.count
    var (first, second): (UInt32, UInt32) = (1, 0)
    for byte in content {
      first = (first + UInt32(byte)) % 65521
      second = (second + first) % 65521
    }
    writer.isBigEndian = true
    writer.number(UInt64(second << 16 | first), 4)
    return writer.bytes
  }

  private func noise(_ count: Int, _ random: inout SplitMix) -> [UInt8] {
    (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next() % 255 + 1) }
  }

  @Test func inflatesSectionsOnDemand() throws {
    let seed: UInt64 = 20_261
    var random = SplitMix(seed)
    let whole = noise(400_000, &random)
    let compressed = MadeUpBytes(stream(whole))
    let content = try SectionContent(inflating: compressed.bytes, to: UInt64(whole.count), of: nil)
    #expect(content.ready == 0 && content.bytes.count == whole.count && content.inflatedBytes == 0)
    var before = 0
    for end in [0, 1, 10, 65536, 65537, 65537, 200_000, 399_999, 400_000, 500_000] {
      content.require(end)
      #expect(content.ready >= min(end, whole.count) && content.ready >= before && content.ready <= whole.count)
      // The section is inflated in pieces, not far beyond the request.
      if end > before { #expect(content.ready >= min(before + 65536, whole.count), "\(end)") }
      #expect(content.ready <= max(end, before + 65536), "\(end)")
      before = content.ready
      #expect(content.bytes.part(0, UInt64(before))?.array == Array(whole[..<before]), "seed \(seed)")
      #expect(content.inflatedBytes == before)
    }
    content.requireAll()
    #expect(content.ready == whole.count)
    let plain = SectionContent(compressed.bytes)
    #expect(plain.ready == compressed.bytes.count && plain.inflatedBytes == 0 && SectionContent.empty.ready == 0)
  }

  @Test func zeroFillsTruncatedStreams() throws {
    let seed: UInt64 = 20_261
    var random = SplitMix(seed)
    let whole = noise(100_000, &random)
    let written = stream(whole)
    for count in [0, 1, 2, 7, 1000, 32_774, 90_000] {
      let cut = MadeUpBytes(Array(written.prefix(count)))
      let content = try SectionContent(inflating: cut.bytes, to: UInt64(whole.count), of: nil)
      content.require(10)
      content.requireAll()
      #expect(content.ready == whole.count)
      let found = content.bytes.array
      let right = zip(found, whole).prefix { $0 == $1 }.count
      // The stream's header has two bytes, each block's five.
      let blocks = (count + 0x7fff) / 0x8000
      #expect(right >= count - 2 - 5 * blocks && right <= count, "seed \(seed), \(count)")
      #expect(found[right...].allSatisfy { $0 == 0 }, "seed \(seed), \(count)")
    }
    let short = MadeUpBytes(written)
    let content = try SectionContent(inflating: short.bytes, to: UInt64(whole.count) + 500, of: nil)
    content.requireAll()
    #expect(content.bytes.array == whole + [UInt8](repeating: 0, count: 500))
  }

  @Test func rejectsImpossibleSizes() {
    let bytes = MadeUpBytes([UInt8](repeating: 0, count: 1000))
    for (size, isTaken) in [
      (0, false), (1, true), (1 << 20, true), (1 << 20 + 1000 << 6, true), ((1 << 20) + 1001 << 6, false),
      (1 << 40, false), (.max, false),
    ] as [(UInt64, Bool)] {
      let content = try? SectionContent(inflating: bytes.bytes, to: size, of: nil)
      #expect((content != nil) == isTaken, "\(size)")
    }
    #expect((try? SectionContent(size: 8) { _ throws(ElfError) in })?.ready == 8)
    #expect((try? SectionContent(size: 0) { _ throws(ElfError) in }) == nil)
  }

  @Test func readsBothCompressedForms() throws {
    var random = SplitMix(20_261)
    let whole = noise(3000, &random)
    func header(_ type: UInt64, _ size: Int) -> [UInt8] {
      ByteWriter.made { writer in
        for (value, width) in [(type, 4), (0, 4), (UInt64(size), 8), (1, 8)] { writer.number(value, width) }
      }
    }
    func old(_ size: Int) -> [UInt8] {
      var writer = ByteWriter(isBigEndian: true)
      writer.append("ZLIB".utf8)
      writer.number(UInt64(size), 8)
      return writer.bytes
    }
    let image = try madeUpImage([
      MadeUpSection(name: ".debug_new", flags: 0x800, content: header(1, 3000) + stream(whole)),
      MadeUpSection(name: ".zdebug_old", content: old(3000) + stream(whole)),
      MadeUpSection(name: ".debug_plain", content: whole),
      MadeUpSection(name: ".debug_unknown", flags: 0x800, content: header(9, 3000) + stream(whole)),
      MadeUpSection(name: ".debug_cut", flags: 0x800, content: Array(header(1, 3000).dropLast())),
      MadeUpSection(name: ".zdebug_cut", content: Array(old(3000).dropLast())),
      MadeUpSection(name: ".zdebug_odd", content: Array("ZLIC".utf8) + old(3000).dropFirst(4) + stream(whole)),
    ])
    for name in [".debug_new", ".debug_old", ".debug_plain"] {
      let content = try #require(try image.content(of: name))
      content.requireAll()
      #expect(content.bytes.array == whole)
      #expect(try image.content(of: name) === content)
    }
    #expect(image.inflatedBytes == 6000)
    for name in [".debug_unknown", ".debug_cut", ".zdebug_cut", ".debug_odd"] {
      #expect(throws: ElfError.self) { try image.content(of: name) }
    }
    #expect(try image.content(of: ".debug_none") == nil)
  }

  /// An index of `units` by id, with open addressing (DWARF 5, 7.3.5.3) and `slots` slots.
  private func index(_ version: UInt64, _ units: [(id: UInt64, columns: [UInt64])], kinds: [UInt64], slots: Int)
    -> [UInt8]
  {
    var hashes = [UInt64](repeating: 0, count: slots)
    var rows = [UInt64](repeating: 0, count: slots)
    for (row, unit) in units.enumerated() {
      let mask = UInt64(slots - 1)
      var slot = unit.id & mask
      while rows[Int(slot)] != 0 { slot = (slot + ((unit.id >> 32) & mask | 1)) & mask }
      hashes[Int(slot)] = unit.id
      rows[Int(slot)] = UInt64(row + 1)
    }
    return ByteWriter.made { writer in
      for number in [version, UInt64(kinds.count), UInt64(units.count), UInt64(slots)] { writer.number(number, 4) }
      for hash in hashes { writer.number(hash, 8) }
      for row in rows { writer.number(row, 4) }
      for kind in kinds { writer.number(kind, 4) }
      for unit in units { for column in unit.columns { writer.number(column, 4) } }
      for _ in units { for _ in kinds { writer.number(1, 4) } }
    }
  }

  @Test(arguments: [2, 5] as [UInt64]) func findsPackageUnitsByID(version: UInt64) throws {
    let seed: UInt64 = 20_261
    var random = SplitMix(seed)
    let fixture = Fixture()
    let unit: [UInt8] =
      version == 5
      ? [17, 0, 0, 0, 5, 0, 5, 8, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0] : [8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 0]
    // The skeleton unit in the program.
    let program = madeUpFile([
      MadeUpSection(name: ".debug_info", content: [8, 0, 0, 0, 4, 0, 0, 0, 0, 0, 8, 0]),
      MadeUpSection(name: ".debug_abbrev", content: [0]),
    ])
    try Data(program).write(to: URL(fileURLWithPath: fixture.path("program")))
    let image = try ElfImage(path: fixture.path("program"))
    let own = try #require(try DwarfFile(image))
    let skeleton = own.unit(try #require(own.header(at: 0)))
    #expect(SplitPackage(beside: image) == nil)
    // Info, abbreviations, lines, string offsets, a kind of version 5 only, and unknown kinds.
    let kinds = ([1, 3, 4, 6, 8, 5, 7] as [UInt64]).shuffled(using: &random)
    for slots in [1, 16, 64] {
      let count = slots == 1 ? 1 : slots - 1
      // Ids that differ only in the high bits share slots.
      let ids = (0..<count).map { UInt64($0 % 3) + UInt64($0 + 1) << 32 }
      let units = ids.enumerated()
        .map { place, id in
          (id: id, columns: kinds.map { $0 == 1 ? UInt64(place * unit.count) : UInt64(place) * 10 + $0 })
        }
      func write(_ index: [UInt8]) throws {
        let package = madeUpFile([
          MadeUpSection(name: ".debug_info.dwo", content: Array(repeatElement(unit, count: count).joined())),
          MadeUpSection(name: ".debug_abbrev.dwo", content: [UInt8](repeating: 0, count: 2000)),
          MadeUpSection(name: ".debug_cu_index", content: index),
        ])
        try Data(package).write(to: URL(fileURLWithPath: fixture.path("program.dwp")))
      }
      try write(index(version, units, kinds: kinds, slots: slots))
      let package = try #require(SplitPackage(beside: image))
      for (place, id) in ids.enumerated() {
        let found = package.unit(id, skeleton)
        let offset = UInt64(place) * 10
        #expect(found?.header.offset == place * unit.count && found?.skeleton === skeleton, "seed \(seed)")
        #expect(found.map { UInt64($0.contribution.abbreviations) } == offset + 3)
        #expect(found.map { UInt64($0.contribution.line) } == offset + 4)
        #expect(found.map { UInt64($0.contribution.textOffsets) } == offset + 6)
        #expect(found.map { UInt64($0.contribution.rangeLists) } == (version == 5 ? offset + 8 : 0))
      }
      for id in [0, 77, .max, ids[0] ^ 1 << 63] as [UInt64] {
        #expect(package.unit(id, skeleton)?.header.offset == nil)
      }
      try write(index(3, units, kinds: kinds, slots: slots))
      #expect(SplitPackage(beside: image) == nil)
      let whole = index(version, units, kinds: kinds, slots: slots)
      try write(Array(whole[..<12]) + [3, 0, 0, 0] + whole[16...])
      #expect(SplitPackage(beside: image)?.unit(ids[0], skeleton)?.header.offset == nil)
      try write(Array(whole.prefix(16 + slots * 12 + 4 * kinds.count - 1)))
      #expect(SplitPackage(beside: image) == nil)
      // The slots refer to a row that does not exist.
      let rows = 16 + slots * 8
      try write(Array(whole[..<rows]) + [UInt8](repeating: 0xff, count: slots * 4) + whole[(rows + slots * 4)...])
      #expect(SplitPackage(beside: image)?.unit(ids[0], skeleton)?.header.offset == nil)
    }
  }
}

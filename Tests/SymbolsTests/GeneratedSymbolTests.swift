import CulpritStallRecord
import SplitMix
import Testing

@testable import CulpritSymbols

/// Random symbol tables, compared with a linear search.
@Suite struct GeneratedSymbolTests {
  private struct Entry {
    var name: String
    var binding: UInt8
    var type: UInt8
    var section: UInt16
    var value: UInt64
    var size: UInt64
    /// The preceding file symbol.
    var file: String?
  }

  /// An image with `entries` in its symbol table, and code at 0x1000 to 0x1100 and 0x2000 to 0x2040.
  private func image(_ entries: [Entry], type: UInt32 = 2) throws -> ElfImage {
    var (names, table) = (ByteWriter(), ByteWriter())
    names.u8(0)
    table.append([UInt8](repeating: 0, count: 24))
    for entry in entries {
      table.number(entry.name.isEmpty ? 0 : UInt64(names.count), 4)
      if !entry.name.isEmpty { names.text(entry.name) }
      table.append([entry.binding << 4 | entry.type, 0])
      table.number(UInt64(entry.section), 2)
      table.number(entry.value, 8)
      table.number(entry.size, 8)
    }
    return try madeUpImage([
      .code(at: 0x1000, size: 0x100), .code(at: 0x2000, size: 0x40),
      MadeUpSection(name: ".symtab", type: type, link: 4, entrySize: 24, content: table.bytes),
      MadeUpSection(name: ".strtab", type: 3, content: names.bytes),
    ])
  }

  private func codeEnd(_ address: UInt64) -> UInt64? {
    [(0x1000, 0x1100), (0x2000, 0x2040)].first { $0.0 <= address && address < $0.1 }?.1
  }

  private func found(_ table: SymbolTable, _ address: UInt64) -> String? {
    table.symbol(at: FileAddress(address))?.name.string
  }

  @Test func findsCoveringSymbol() throws {
    let seed: UInt64 = 20_261
    var random = SplitMix(seed)
    for _ in 0..<100 {
      var entries: [Entry] = []
      var file: String?
      var starts: Set<UInt64> = []
      for number in 0..<Int.random(in: 1...25, using: &random) {
        if Int.random(in: 0..<5, using: &random) == 0 {
          file = "file\(number).c"
          entries.append(Entry(name: file ?? "", binding: 0, type: 4, section: 0xfff1, value: 0, size: 0))
        }
        let start =
          UInt64.random(in: 0...10, using: &random) == 0
          ? [0, 0xfff, 0x1100, 0x2040].randomElement(using: &random) ?? 0
          : UInt64.random(in: 0...60, using: &random) * 4 + [0x1000, 0x2000][Int.random(in: 0...1, using: &random)]
        // Another test covers symbols with equal addresses.
        guard starts.insert(start).inserted else { continue }
        var entry = Entry(name: "f\(number)", binding: 0, type: 2, section: 1, value: start, size: 0, file: file)
        entry.binding = UInt8.random(in: 0...2, using: &random)
        entry.type = [2, 2, 2, 10, 1, 3].randomElement(using: &random) ?? 2
        entry.section = [1, 1, 1, 0xfeff, 0xffff, 0, 0xff00, 0xfff1].randomElement(using: &random) ?? 1
        entry.size = UInt64.random(in: 1...60, using: &random)
        if Int.random(in: 0..<12, using: &random) == 0 { entry.name = "" }
        entries.append(entry)
      }
      let table = SymbolTable(try image(entries))
      // Named functions in code, in a section of the file (System V ABI, "Symbol Table").
      let functions = entries.filter { entry in
        [2, 10].contains(entry.type) && entry.value != 0 && entry.name != "" && codeEnd(entry.value) != nil
          && (1..<0xff00 ~= entry.section || entry.section == 0xffff)
      }
      #expect(table.count == functions.count, "seed \(seed)")
      for address in Array(0xff0..<0x1140 as Range<UInt64>) + Array(0x1ff0..<0x2130) {
        let expected = functions.filter { $0.value <= address && address < $0.value + $0.size }
          .max { $0.value < $1.value }
        let match = table.symbol(at: FileAddress(address))
        #expect(match?.name.string == expected?.name, "seed \(seed), \(address)")
        #expect(match?.range.start == expected?.value && match?.range.end == expected.map { $0.value + $0.size })
        // A file symbol applies to local symbols only.
        #expect(match?.file?.string == expected.flatMap { $0.binding == 0 ? $0.file : nil }, "seed \(seed)")
      }
      var listed: Set<String> = []
      table.forEach { _, name in listed.insert(name.string) }
      #expect(listed == Set(functions.map(\.name)))
    }
  }

  @Test func boundsSymbolsWithoutSize() throws {
    func label(_ name: String, _ value: UInt64, type: UInt8 = 0, size: UInt64 = 0, binding: UInt8 = 0) -> Entry {
      Entry(name: name, binding: binding, type: type, section: 1, value: value, size: size)
    }
    let table = SymbolTable(
      try image([
        label("a", 0x1000), label("b", 0x1010), label("sized", 0x1020, type: 2, size: 0x20), label("in", 0x1030),
        label("edge", 0x1040), label("cc", 0x10f0), label("d", 0x2000, type: 2),
        label("long", 0x2030, type: 2, size: .max),
        label("$x", 0x1060), label("$d.7", 0x1064), label("$a", 0x1068), label("$t", 0x106c), label(".L0 ", 0x1070),
        label("$xy", 0x1080), label("$m", 0x1084), label(".L2", 0x1088), label(".LASF12", 0x108c), label("x$x", 0x1090),
        label("$x", 0x1098, type: 2, size: 4),
      ])
    )
    let names = [
      0x1000, 0x100f, 0x1010, 0x101f, 0x1020, 0x1030, 0x103f, 0x1040, 0x105f, 0x1060, 0x107f, 0x1080, 0x1084, 0x1088,
      0x108c, 0x1090, 0x1098, 0x109b, 0x109c, 0x10f0, 0x10ff, 0x1100, 0x2000, 0x202f, 0x2030, 0x203f, 0x2040,
    ]
    .map { found(table, $0) }
    #expect(
      names == [
        "a", "a", "b", "b", "sized", "sized", "sized", "edge", "edge", "edge", "edge", "$xy", "$xy", "$xy", "$xy",
        "x$x", "$x", "$x", nil, "cc", "cc", nil, "d", "d", "long", "long", nil,
      ]
    )
  }

  @Test func prefersRequestedAlias() throws {
    func function(_ name: String, _ binding: UInt8, _ value: UInt64 = 0x1000) -> Entry {
      Entry(name: name, binding: binding, type: 2, section: 1, value: value, size: 16)
    }
    let image = try image([
      function("local", 0), function("first", 1), function("second", 1), function("weak", 2), function("third", 1),
      function("only", 1, 0x1020),
    ])
    let table = SymbolTable(image)
    let texts = MadeUpBytes(Array("second\0third\0weak\0first\0nobody\0".utf8))
    for (place, name) in [(0, "second"), (7, "third"), (13, "first"), (18, "first"), (24, "first")] {
      let preferred = texts.bytes.text(at: place)
      #expect(table.symbol(at: FileAddress(0x1004), preferring: preferred)?.name.string == name)
      #expect(table.symbol(at: FileAddress(0x1024), preferring: preferred)?.name.string == "only")
    }
    #expect(found(table, 0x1004) == "first" && found(table, 0x1010) == nil && found(table, 0x1020) == "only")
    #expect(table.byteCount > 0)
  }

  @Test func findsMainByName() throws {
    func entry(_ name: String, _ binding: UInt8, _ value: UInt64) -> Entry {
      Entry(name: name, binding: binding, type: 2, section: 1, value: value, size: 4)
    }
    let others = ["mainly", "mai", "domain", "Main", "nain", "mbin", "maan", "maim"].enumerated()
      .map { entry($1, 1, 0x1000 + 4 * UInt64($0)) }
    #expect(SymbolTable(try image(others + [entry("main", 0, 0x1080)])).main == nil)
    let both = [entry("main", 1, 0x1080), entry("main", 1, 0x1084)]
    #expect(SymbolTable(try image(others + both)).main == 0x1080)
  }

  @Test func prefersFullSymbolTable() throws {
    func table(_ names: [String], _ type: UInt32, _ link: UInt32, entrySize: UInt64 = 24) -> [MadeUpSection] {
      var (texts, symbols) = (ByteWriter(), ByteWriter())
      texts.u8(0)
      symbols.append([UInt8](repeating: 0, count: 24))
      for (place, name) in names.enumerated() {
        symbols.number(UInt64(texts.count), 4)
        texts.text(name)
        symbols.append([0x12, 0, 1, 0])
        symbols.number(0x1000 + 16 * UInt64(place), 8)
        symbols.number(16, 8)
      }
      return [
        MadeUpSection(name: "table", type: type, link: link, entrySize: entrySize, content: symbols.bytes),
        MadeUpSection(name: "texts", type: 3, content: texts.bytes),
      ]
    }
    let code = MadeUpSection.code(at: 0x1000, size: 0x100)
    let (full, exported) = ({ table(["a", "b"], 2, $0) }, { table(["b"], 11, $0) })
    func names(_ sections: [MadeUpSection]) throws -> Set<String> {
      var names: Set<String> = []
      SymbolTable(try madeUpImage([code] + sections)).forEach { names.insert($1.string) }
      return names
    }
    #expect(try names(full(3) + exported(5)) == ["a", "b"])
    #expect(try names(exported(3) + full(5)) == ["a", "b"])
    #expect(try names(exported(3)) == ["b"] && names(table(["c"], 11, 3) + exported(5)) == ["c"])
    #expect(try names(full(77)) == [] && names(table(["a"], 2, 3, entrySize: 16)) == [])
    #expect(try names([MadeUpSection(name: ".symtab", type: 8, size: 48, link: 3, entrySize: 24)]) == [])
  }

  @Test func boundsCodeBySegment() throws {
    // Code, data, an unloaded segment, and code that would pass the highest address.
    let image = try madeUpImage(segments: [
      MadeUpSegment(flags: 5, address: 0x1000, size: 0x100), MadeUpSegment(flags: 6, address: 0x2000, size: 0x100),
      MadeUpSegment(type: 4, flags: 5, address: 0x3000, size: 0x100),
      MadeUpSegment(flags: 5, address: .max - 3, size: 0x100),
    ])
    let bounds = CodeBounds(image)
    for (address, end) in [
      (0xfff, 0xfff), (0x1000, 0x1100), (0x10ff, 0x1100), (0x1100, 0x1100), (0x2010, 0x2010), (0x3010, 0x3010),
      (.max - 1, .max - 1),
    ] as [(UInt64, UInt64)] {
      #expect(bounds.end(at: address) == end)
    }
  }

  @Test func boundsUnwindTableFunctionsByCode() throws {
    let code: [Range<UInt64>] = [0x1000..<0x1100, 0x1100..<0x1180, 0x1200..<0x1240]
    let starts: [UInt64] = [0x1200, 0x1010, 0x1190, 0x1040, 0x1100]
    let table: UInt64 = 0x4000
    let content = ByteWriter.made { writer in
      writer.append([1, 0x1b, 0x03, 0x3b])
      writer.number(0, 4)
      writer.number(UInt64(starts.count), 4)
      for start in starts {
        writer.number(start &- table, 4)
        writer.number(0, 4)
      }
    }
    let functions = FunctionStarts(
      try madeUpImage(
        segments: code.map { MadeUpSegment(flags: 5, address: $0.lowerBound, size: UInt64($0.count)) }
          + [MadeUpSegment(type: 0x6474_e550, flags: 4, address: table, size: UInt64(content.count), content: content)]
      )
    )
    #expect(functions.starts == starts.sorted())
    for address in 0xff0..<0x1260 as Range<UInt64> {
      let start = starts.filter { $0 <= address }.max()
      let own = code.first { range in start.map(range.contains) ?? false }
      let expected = own.flatMap { $0.contains(address) ? start : nil }
      #expect(functions.start(at: FileAddress(address))?.value == expected, "\(address)")
    }
  }
}

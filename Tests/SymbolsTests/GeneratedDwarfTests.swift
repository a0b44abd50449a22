import SplitMix
import Testing

@testable import CulpritSymbols

/// Line number programs that are written here at random, against the rows that they were written for.
@Suite struct GeneratedLineTests {
  private struct Row {
    var address: UInt64
    var file: UInt64
    var line: UInt32
    var column: UInt64
    var discriminator: UInt64
  }

  private struct Sequence {
    var rows: [Row]
    var end: UInt64
    /// Whether there is such code: the linker drops some, and some has no length.
    var isThere: Bool { (rows.first?.address ?? 0) != 0 && (rows.first?.address ?? 0) < end }
  }

  /// How a program is written.
  private struct Style {
    var version = 4
    var isWide = false
    var addressBytes = 8
    var minimum: UInt64 = 1
    var lineBase: Int8 = -5
    var lineRange: UInt8 = 14
    var opcodeBase: UInt8 = 13
    var fileCount = 4
  }

  private func style(_ random: inout SplitMix) -> Style {
    Style(
      version: Int.random(in: 2...5, using: &random),
      isWide: Bool.random(using: &random),
      addressBytes: Bool.random(using: &random) ? 4 : 8,
      minimum: [1, 2, 4].randomElement(using: &random) ?? 1,
      lineBase: Int8.random(in: -8...3, using: &random),
      lineRange: UInt8.random(in: 1...20, using: &random),
      opcodeBase: [10, 13, 16].randomElement(using: &random) ?? 13
    )
  }

  private func sequence(_ style: Style, _ random: inout SplitMix) -> Sequence {
    // Close to each other: some lie in others. One in ten was dropped.
    var address = Int.random(in: 0..<10, using: &random) == 0 ? 0 : UInt64.random(in: 1...400, using: &random) * 16
    var rows: [Row] = []
    for _ in 0..<Int.random(in: 1...12, using: &random) {
      var row = Row(address: address, file: 1, line: 1, column: 0, discriminator: 0)
      row.file = UInt64.random(in: 1...UInt64(style.fileCount), using: &random)
      row.line = UInt32.random(in: 1...60, using: &random)
      if Int.random(in: 0..<4, using: &random) == 0 { row.line = UInt32.random(in: 1...3_000_000, using: &random) }
      row.column = UInt64.random(in: 0...3, using: &random)
      if Bool.random(using: &random) { row.discriminator = UInt64.random(in: 0...2, using: &random) }
      if Int.random(in: 0..<8, using: &random) == 0 {
        row.discriminator = UInt64.random(in: 0xfffd...0x1_0003, using: &random)
      }
      // The same place again, with one difference or none.
      if let last = rows.last, Int.random(in: 0..<2, using: &random) == 0 {
        let new = row
        row = last
        row.address = address
        switch Int.random(in: 0..<5, using: &random) {
        case 0: row.file = new.file
        case 1: row.line = new.line
        case 2: row.column = new.column
        case 3: row.discriminator = new.discriminator
        default: break
        }
      }
      rows.append(row)
      address += style.minimum * UInt64.random(in: 0...(Bool.random(using: &random) ? 3 : 700), using: &random)
    }
    return Sequence(rows: rows, end: address)
  }

  private func write(_ sequence: Sequence, _ style: Style, _ random: inout SplitMix, _ writer: inout ByteWriter) {
    var state = Row(address: 0, file: 1, line: 1, column: 0, discriminator: 0)
    func setAddress(_ address: UInt64, _ writer: inout ByteWriter) {
      writer.append([0, UInt8(style.addressBytes + 1), 2])
      writer.number(address, style.addressBytes)
    }
    let constant = UInt64((255 - style.opcodeBase) / style.lineRange) * style.minimum
    for (place, row) in (sequence.rows + [Row(address: sequence.end, file: 1, line: 1, column: 0, discriminator: 0)])
      .enumerated()
    {
      let isEnd = place == sequence.rows.count
      if !isEnd {
        if row.file != state.file {
          writer.u8(4)
          writer.uleb(row.file)
        }
        if row.column != state.column {
          writer.u8(5)
          writer.uleb(row.column)
        }
        if row.discriminator != 0 {
          // What an opcode of an unknown length has behind its operand is passed over.
          let operand = ByteWriter.made { $0.uleb(row.discriminator) }
          let padding = [UInt8](repeating: 1, count: Int.random(in: 0...2, using: &random))
          writer.append([0, UInt8(1 + operand.count + padding.count), 4] + operand + padding)
        }
        // What means nothing here: extended opcodes, is_stmt, basic_block, and those of later versions.
        switch Int.random(in: 0..<8, using: &random) {
        case 0: writer.append([0, 3, 0x80, 2, 3])
        case 1: writer.append([6, 7])
        case 2 where style.opcodeBase >= 13: writer.append([10, 11, 12, 0x85, 1])
        case 3 where style.opcodeBase == 16: writer.append([13, 14, 0x81, 3, 15, 1, 0x82, 4])
        case 4: writer.append([0, 0])
        default: break
        }
      }
      var distance = row.address &- state.address
      if place == 0 || (Int.random(in: 0..<6, using: &random) == 0) {
        setAddress(row.address, &writer)
        distance = 0
      } else if distance >= constant, Int.random(in: 0..<3, using: &random) == 0 {
        writer.u8(8)
        distance -= constant
      } else if distance < 0x10000, Int.random(in: 0..<3, using: &random) == 0 {
        writer.u8(9)
        writer.number(distance, 2)
        distance = 0
      }
      if isEnd {
        if distance > 0 {
          writer.u8(2)
          writer.uleb(distance / style.minimum)
        }
        writer.append([0, 1, 1])
        break
      }
      let lines = Int64(row.line) - Int64(state.line)
      let special =
        (lines - Int64(style.lineBase)) + Int64(style.lineRange) * Int64(distance / style.minimum)
        + Int64(style.opcodeBase)
      let isShort = lines >= Int64(style.lineBase) && lines < Int64(style.lineBase) + Int64(style.lineRange)
      if isShort, special <= 255, Bool.random(using: &random) || Bool.random(using: &random) {
        writer.u8(special)
      } else {
        if distance > 0 {
          writer.u8(2)
          writer.uleb(distance / style.minimum)
        }
        if lines != 0 {
          writer.u8(3)
          writer.sleb(lines)
        }
        writer.u8(1)
      }
      state = row
    }
  }

  /// A table of `sequences`, and where it ends.
  private func table(_ sequences: [Sequence], _ style: Style, _ random: inout SplitMix) -> [UInt8] {
    var program = ByteWriter()
    for sequence in sequences { write(sequence, style, &random, &program) }
    var header = ByteWriter()
    header.u8(style.minimum)
    if style.version >= 4 { header.u8(1) }
    header.u8(1)
    header.u8(UInt8(bitPattern: style.lineBase))
    header.append([style.lineRange, style.opcodeBase])
    header.append([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0, 1, 2].prefix(Int(style.opcodeBase) - 1))
    if style.version == 5 {
      header.append([1, 1, 8, 1])
      header.text("/src")
      header.append([2, 1, 8, 2, 0x0b, UInt8(style.fileCount + 1)])
      for number in 0...style.fileCount {
        header.text("f\(number).c")
        header.u8(0)
      }
    } else {
      header.u8(0)
      for number in 1...style.fileCount {
        header.text("f\(number).c")
        header.append([0, 0, 0])
      }
      header.u8(0)
    }
    // What a later tool has put there.
    header.append([UInt8](repeating: 0xaa, count: Int.random(in: 0...3, using: &random)))
    var unit = ByteWriter()
    unit.number(UInt64(style.version), 2)
    if style.version == 5 { unit.append([UInt8(style.addressBytes), 0]) }
    unit.number(UInt64(header.count), style.isWide ? 8 : 4)
    unit.append(header.bytes + program.bytes)
    return ByteWriter.made { writer in
      if style.isWide { writer.number(0xffff_ffff, 4) }
      writer.number(UInt64(unit.count), style.isWide ? 8 : 4)
      writer.append(unit.bytes)
    }
  }

  @Test func everyAddressHasTheRowThatWasWritten() throws {
    let seed = UInt64.random(in: 0...(.max))
    var random = SplitMix(seed)
    for _ in 0..<120 {
      let style = style(&random)
      let sequences = (0..<Int.random(in: 1...5, using: &random)).map { _ in sequence(style, &random) }
      let before = [UInt8](repeating: 0xcc, count: Int.random(in: 0...5, using: &random))
      // Behind the table is another, which is not read.
      let content = before + table(sequences, style, &random) + table(sequences, style, &random)
      let file = try #require(try madeUpDebugInformation([".debug_line": content]))
      let table = try #require(
        LineTable(file, at: before.count, directory: nil, addressBytes: UInt8(style.addressBytes))
      )
      #expect(table.sequences.count == sequences.count { $0.isThere }, "seed \(seed)")
      let ends = sequences.flatMap { [$0.end] + $0.rows.map(\.address) }
      let queries = Set(ends.flatMap { [$0, $0 + 1, $0 &- 1] }).filter { $0 < 1 << 40 }
      for address in queries {
        let covering = sequences.filter { $0.isThere && $0.rows[0].address <= address && address < $0.end }
        let latest = covering.map { $0.rows[0].address }.max()
        let candidates = covering.filter { $0.rows[0].address == latest }
          .compactMap { $0.rows.last { $0.address <= address } }
        let found = table.row(at: address)
        let isRight =
          candidates.isEmpty
          ? found == nil
          : candidates.contains {
            $0.line == found?.row.line && $0.file == found.map { UInt64($0.row.file) }
              && $0.column == found.map { UInt64($0.row.column) }
              && $0.discriminator == found.map { UInt64($0.discriminator) }
          }
        #expect(isRight, "seed \(seed), \(style), \(address): \(String(describing: found))")
        let number = found?.row.file ?? 1
        #expect(table.path(number) == (style.version == 5 ? "/src/f\(number).c" : "f\(number).c"))
      }
      let files = UInt32(style.fileCount)
      #expect(table.path(files) != nil && table.path(files + 1) == nil)
      #expect((table.path(0) == nil) == (style.version < 5))
      #expect(table.byteCount >= table.rows.count * 16)
    }
  }

  /// A table that is cut anywhere gives less, and nothing else.
  @Test func rowsOfACutTableAreThoseOfTheWholeOne() throws {
    let seed = UInt64.random(in: 0...(.max))
    var random = SplitMix(seed)
    let style = Style()
    let sequences = (0..<3).map { number in
      Sequence(
        rows: [5, 9, 14].map {
          Row(address: 1000 * (number + 1) + $0, file: 1, line: UInt32($0), column: 0, discriminator: 0)
        },
        end: 1000 * (number + 1) + 20
      )
    }
    let content = table(sequences, style, &random)
    for count in 0..<content.count {
      var cut = ByteWriter()
      cut.append(content.prefix(count))
      // Cut by the file: no table. Cut by its own length: the sequences that end before.
      let file = try #require(try madeUpDebugInformation([".debug_line": cut.bytes]))
      #expect(LineTable(file, at: 0, directory: nil, addressBytes: 8) == nil)
      guard count >= 4 else { continue }
      cut.put(UInt64(count - 4), 4, at: 0)
      let shorter = try #require(try madeUpDebugInformation([".debug_line": cut.bytes]))
      guard let table = LineTable(shorter, at: 0, directory: nil, addressBytes: 8) else { continue }
      for sequence in table.sequences {
        let whole = sequences.first { $0.rows[0].address == sequence.range.start }
        #expect(whole?.end == sequence.range.end && sequence.count == 3, "seed \(seed), \(count)")
      }
    }
  }

  /// Rows that go backwards in their sequence are found in order; those before its beginning are not.
  @Test func rowsThatGoBackwardsAreSorted() throws {
    var program = ByteWriter()
    for (address, line) in [(0x1000, 10), (0x1020, 20), (0x1010, -10), (0x0ff0, 500), (0x1030, -470)]
      as [(UInt64, Int64)]
    {
      program.append([0, 9, 2])
      program.number(address, 8)
      program.append([0, 4, 4])
      program.uleb(address << 4)
      program.u8(3)
      program.sleb(line)
      program.u8(1)
    }
    program.append([2, 0x10, 0, 1, 1])
    var header = [1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1, 0] as [UInt8]
    header += Array("a.c".utf8) + [0, 0, 0, 0, 0]
    let content = ByteWriter.made { writer in
      writer.number(UInt64(2 + 4 + header.count + program.count), 4)
      writer.number(4, 2)
      writer.number(UInt64(header.count), 4)
      writer.append(header + program.bytes)
    }
    let file = try #require(try madeUpDebugInformation([".debug_line": content]))
    let table = try #require(LineTable(file, at: 0, directory: nil, addressBytes: 8))
    let lines = [0xfff, 0x1000, 0x100f, 0x1010, 0x101f, 0x1020, 0x102f, 0x1030, 0x103f, 0x1040].map {
      table.row(at: $0)?.row.line
    }
    #expect(lines == [nil, 11, 11, 21, 21, 31, 31, 51, 51, nil])
    // Discriminators that are too large for a row move with it.
    let discriminators = [0x1000, 0x1010, 0x1020, 0x1030].map { table.row(at: $0)?.discriminator }
    #expect(discriminators == [0x1_0000, 0x1_0100, 0x1_0200, 0x1_0300])
  }

  /// Where a file is, in every form of a header (DWARF 5, 6.2.4): a directory may be absolute, or relative to that of the
  /// compilation, which is number 0.
  @Test(arguments: [2, 3, 4, 5]) func pathsOfFilesAreRelativeToTheirDirectories(version: Int) throws {
    let directories = ["/own", "/abs", "rel", "slash/"]
    let files: [(String, Int)] = [
      ("a.c", 0), ("b.c", 1), ("c.c", 2), ("d.c", 3), ("/e/e.c", 2), ("f.c", 9), ("g.c", 0),
    ]
    var header = ByteWriter()
    header.append([1] + (version >= 4 ? [1] : []) + [1, 0xfb, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1])
    var texts = ByteWriter()
    texts.text("unused")
    if version == 5 {
      header.append([1, 1, 0x1f, UInt8(directories.count)])
      for directory in directories {
        header.number(UInt64(texts.count), 4)
        texts.text(directory)
      }
      // With a checksum and something that is not known.
      header.append([4, 1, 8, 2, 0x0b, 5, 0x1e, 0xc0, 0x40, 0x0a, UInt8(files.count)])
      for (name, directory) in files {
        header.text(name)
        header.u8(directory)
        header.append([UInt8](repeating: 7, count: 16) + [2, 1, 1])
      }
    } else {
      for directory in directories.dropFirst() { header.text(directory) }
      header.u8(0)
      for (name, directory) in files {
        header.text(name)
        header.append([UInt8(directory), 0x81, 1, 0x82, 1])
      }
      header.u8(0)
    }
    let content = ByteWriter.made { writer in
      writer.number(UInt64((version == 5 ? 8 : 6) + header.count), 4)
      writer.number(UInt64(version), 2)
      if version == 5 { writer.append([8, 0]) }
      writer.number(UInt64(header.count), 4)
      writer.append(header.bytes)
    }
    let sections = [".debug_line": content, ".debug_line_str": texts.bytes]
    let own = MadeUpBytes(Array("/cwd\0".utf8))
    for directory in [nil, own.bytes.text(at: 0)] {
      let file = try #require(try madeUpDebugInformation(sections))
      let table = try #require(LineTable(file, at: 0, directory: directory, addressBytes: 8))
      let first: UInt32 = version == 5 ? 0 : 1
      let paths = (first..<first + UInt32(files.count)).map { table.path($0) }
      let base = directory == nil ? (version == 5 ? "/own/" : "") : "/cwd/"
      #expect([0, 1, 4, 6].map { paths[$0] } == [base + "a.c", "/abs/b.c", "/e/e.c", base + "g.c"])
      if directory != nil {
        #expect([2, 3, 5].map { paths[$0] } == ["/cwd/rel/c.c", "/cwd/slash/d.c", "/cwd/f.c"])
      }
      #expect(table.path(first + UInt32(files.count)) == nil && table.path(.max) == nil)
      // A path that was put together before stays the same.
      #expect(table.path(first + 1) == "/abs/b.c" && (version == 5 || table.path(0) == nil))
    }
  }
}

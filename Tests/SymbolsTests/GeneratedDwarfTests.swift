import Testing

@testable import CulpritSymbols

@Suite struct GeneratedLineTests {
  @Test func findsRowOfEveryAddress() throws {
    var made: (file: DwarfFile, table: LineTable)?
    var (directory, count) = ("", 0)
    for line in try generatedLines("lines.txt") where line[0] != "cut" {
      if line[0] == "table" {
        let numbers = line[1...4].compactMap { Int($0) }
        let file = try #require(try madeUpDebugInformation([".debug_line": bytes(line[5])]))
        let table = try #require(LineTable(file, at: numbers[0], directory: nil, addressBytes: UInt8(numbers[1])))
        #expect(table.sequences.count == numbers[3])
        #expect(table.path(4) != nil && table.path(5) == nil && (table.path(0) == nil) == (numbers[2] < 5))
        #expect(table.byteCount >= table.rows.count * 16)
        directory = numbers[2] == 5 ? "/src/" : ""
        made = (file, table)
        continue
      }
      let table = try #require(made?.table)
      let found = table.row(at: try #require(UInt64(line[1])))
      let row = found.map { "\($0.row.file) \($0.row.line) \($0.row.column) \($0.discriminator)" } ?? "none"
      #expect(row == line[2...].joined(separator: " "), "\(line)")
      if let number = found?.row.file { #expect(table.path(number) == "\(directory)f\(number).c") }
      count += 1
    }
    #expect(count > 4000)
  }

  @Test func readsRowsOfTruncatedTable() throws {
    // Three sequences of three rows: 1005 to 1020, 2005 to 2020, 3005 to 3020.
    let content = bytes(try #require(try generatedLines("lines.txt").first { $0[0] == "cut" })[1])
    for count in 0..<content.count {
      var cut = ByteWriter()
      cut.append(content.prefix(count))
      // A table that the file truncates is empty. A table with a shorter length keeps the sequences before its end.
      let file = try #require(try madeUpDebugInformation([".debug_line": cut.bytes]))
      #expect(LineTable(file, at: 0, directory: nil, addressBytes: 8) == nil)
      guard count >= 4 else { continue }
      cut.put(UInt64(count - 4), 4, at: 0)
      let shorter = try #require(try madeUpDebugInformation([".debug_line": cut.bytes]))
      guard let table = LineTable(shorter, at: 0, directory: nil, addressBytes: 8) else { continue }
      for sequence in table.sequences {
        let (start, end) = (sequence.range.start, sequence.range.end)
        #expect([1005, 2005, 3005].contains(start) && end == start + 15 && sequence.count == 3, "\(count)")
      }
    }
  }

  @Test func sortsBackwardRows() throws {
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
    let discriminators = [0x1000, 0x1010, 0x1020, 0x1030].map { table.row(at: $0)?.discriminator }
    #expect(discriminators == [0x1_0000, 0x1_0100, 0x1_0200, 0x1_0300])
  }

  /// Directories in a header (DWARF 5, 6.2.4) are absolute or relative to directory 0, the compilation directory.
  @Test(arguments: [2, 3, 4, 5]) func resolvesFilePathsAgainstDirectories(version: Int) throws {
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
      // With a checksum and an unknown content type.
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
      #expect(table.path(first + 1) == "/abs/b.c" && (version == 5 || table.path(0) == nil))
    }
  }
}

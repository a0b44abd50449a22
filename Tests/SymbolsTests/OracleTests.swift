import CCulpritElf
import CulpritStallRecord
import Foundation
import SplitMix
import TestSupport
import Testing

@testable import CulpritSymbols

/// Compares the file readers with libelf and libdw. Headers and notes are compared for every ELF file of the toolchain
/// and below `/usr/lib`, symbols and line tables for a random sample. `CULPRIT_ORACLE` sets the seed of the sample, or
/// `all`.
@Suite(.ownThread) struct OracleTests {
  private static let setting = ProcessInfo.processInfo.environment["CULPRIT_ORACLE"]
  private static let isWhole = setting == "all"
  private static let seed = setting.flatMap { UInt64($0) } ?? .random(in: 0...(.max))

  /// The setting that repeats the sample.
  private static var hint: Comment { isWhole ? "all files" : "CULPRIT_ORACLE=\(seed)" }

  private func record(_ difference: String) { Issue.record("\(difference) (\(Self.hint.rawValue))") }

  private static let files = Result {
    let toolchain = try Fixture().toolchain() + "/.."
    let found = try ChildProcess(
      "/usr/bin/find",
      [toolchain, "/usr/lib", "-type", "f", "-size", "+51c", "-print0"],
      keepsErrors: true
    )
    return found.output.split(separator: "\0").map(String.init).filter(isELF).sorted()
  }

  private static func isELF(_ path: String) -> Bool {
    let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    var magic: [UInt8] = [0, 0, 0, 0]
    return read(descriptor, &magic, 4) == 4 && magic == [0x7f, 0x45, 0x4c, 0x46]
  }

  /// Returns up to `count` files, in an order determined by the seed.
  private static func sample(_ count: Int) throws -> [String] {
    let files = try files.get()
    guard !isWhole else { return files }
    var random = SplitMix(seed)
    return Array(files.shuffled(using: &random).prefix(count))
  }

  // MARK: Headers

  @Test func headersAndNotesMatchLibelf() throws {
    let files = try Self.files.get()
    try #require(files.count > 300)
    var compared = 0
    for path in files {
      guard let oracle = try? OracleFile(path) else { continue }
      compared += 1
      do { compareHeaders(try ElfImage(path: path), oracle) } catch { record("\(path): \(error.text)") }
    }
    #expect(compared > files.count * 9 / 10, Self.hint)
  }

  /// Other machines, for which the host has no files.
  @Test(arguments: ["powerpc-linux-gnu", "i386-linux-gnu", "mips64-linux-gnuabi64", "armv7-linux-gnueabihf"])
  func otherMachinesMatchLibelfAndLibdw(target: String) throws {
    let fixture = Fixture()
    try fixture.write(nestedCalls, "nested.cpp")
    try fixture.run(
      "clang++ -target \(target) -O1 -gdwarf-4 -fdebug-types-section -ffreestanding -fPIC -c nested.cpp"
        + " && ld.lld -shared --build-id -o nested.so nested.o"
    )
    for name in ["nested.o", "nested.so"] {
      let (image, oracle) = (try ElfImage(path: fixture.path(name)), try OracleFile(fixture.path(name)))
      #expect(image.sections.count > 8)
      compareHeaders(image, oracle)
      #expect(try compareSymbols(image, oracle) > 3)
    }
    #expect(try ElfImage(path: fixture.path("nested.so")).buildID.count == 20)
    #expect(try compareLines(fixture.path("nested.so"), unitsMax: .max) > 5)
  }

  private func compareHeaders(_ image: ElfImage, _ oracle: OracleFile) {
    #expect(image.machine == oracle.header.e_machine, "\(image.path)")
    let sections = oracle.sections
    guard image.sections.count == sections.count else {
      record("\(image.path): \(image.sections.count) sections, libelf has \(sections.count)")
      return
    }
    for (ours, (section, theirs)) in zip(image.sections, sections) {
      let same =
        ours.type == theirs.sh_type && ours.flags == theirs.sh_flags && ours.address == theirs.sh_addr
        && ours.offset == theirs.sh_offset && ours.size == theirs.sh_size && ours.link == theirs.sh_link
        && ours.info == theirs.sh_info && ours.alignment == theirs.sh_addralign && ours.entrySize == theirs.sh_entsize
      let name = oracle.name(of: theirs)
      if !same || ours.name != name { record("\(image.path): \(ours), which is \(name) \(theirs) to libelf") }
      if ours.type == ElfFormat.noteSection, let bytes = image.raw(ours) {
        let notes = ElfNotes(bytes, alignment: ours.alignment).map(OracleNote.init)
        #expect(notes == OracleFile.notes(elf_getdata(section, nil)), "\(image.path) \(ours.name)")
      }
    }
    let segments = oracle.segments
    #expect(image.segments.count == segments.count, "\(image.path)")
    for (ours, theirs) in zip(image.segments, segments) {
      let same =
        ours.type == theirs.p_type && ours.flags == theirs.p_flags && ours.offset == theirs.p_offset
        && ours.address == theirs.p_vaddr && ours.fileSize == theirs.p_filesz && ours.memorySize == theirs.p_memsz
        && ours.alignment == theirs.p_align
      if !same { record("\(image.path): \(ours), which is \(theirs) to libelf") }
      if ours.type == ElfFormat.noteSegment, let bytes = image.bytes.part(ours.offset, ours.fileSize) {
        let notes = ElfNotes(bytes, alignment: ours.alignment).map(OracleNote.init)
        #expect(notes == oracle.notes(theirs), "\(image.path)")
      }
    }
    #expect(image.buildID == oracle.buildID, "\(image.path)")
  }

  // MARK: Symbols

  @Test func symbolsMatchLibelf() throws {
    var count = 0
    for path in try Self.sample(.max) where Self.isWhole || count < 60_000 {
      guard let oracle = try? OracleFile(path), let image = try? ElfImage(path: path) else { continue }
      count += try compareSymbols(image, oracle)
    }
    #expect(count > 20_000, Self.hint)
  }

  /// Compares all entries, and looks up functions. Returns the number of entries.
  private func compareSymbols(_ image: ElfImage, _ oracle: OracleFile) throws -> Int {
    var count = 0
    var functions: [UInt64: Set<String>] = [:]
    let code = oracle.sections.map { $0.header.sh_flags & 6 == 6 }
    let hasTable = image.sections.contains { $0.type == ElfFormat.symbolTable }
    for (ours, (section, header)) in zip(image.sections, oracle.sections) {
      guard ours.type == ElfFormat.symbolTable || ours.type == ElfFormat.dynamicSymbolTable,
        let table = image.raw(ours), let data = elf_getdata(section, nil)
      else { continue }
      let names = image.raw(image.sections[Int(ours.link)]) ?? .none
      var cursor = table.cursor()
      var differences = 0
      let entries = table.count / ElfSymbol.byteCount(is64: image.is64)
      for number in 0..<entries {
        let symbol = ElfSymbol(&cursor, is64: image.is64)
        var expected = GElf_Sym()
        guard gelf_getsym(data, Int32(number), &expected) != nil else {
          record("\(image.path): libelf has no symbol \(number) in \(ours.name)")
          break
        }
        let text = oracle.text(header.sh_link, expected.st_name)
        let same =
          symbol.name == expected.st_name && symbol.info == expected.st_info && symbol.other == expected.st_other
          && symbol.section == expected.st_shndx && symbol.value == expected.st_value && symbol.size == expected.st_size
          && isSame(names.text(at: Int(symbol.name)), text)
        if !same {
          differences += 1
          if differences < 4 { record("\(image.path): \(symbol), which is \(expected) to libelf") }
        }
        let isTaken = hasTable == (ours.type == ElfFormat.symbolTable)
        if isTaken, symbol.type == 2, symbol.size > 0, symbol.value != 0, number % 16 == 0 || Self.isWhole,
          code.indices.contains(Int(symbol.section)), code[Int(symbol.section)], let text
        {
          functions[symbol.value, default: []].insert(String(cString: text))
        }
      }
      count += entries
    }
    // In object files, all functions begin at 0. On other machines, symbols do not always refer to code.
    guard oracle.header.e_type != ET_REL, oracle.header.e_machine == EM_X86_64, !functions.isEmpty else { return count }
    let table = SymbolTable(image)
    for (start, names) in functions {
      // The table can return an alias, and `functions` has only a sixteenth of the names.
      let found = names.compactMap { name in
        name.withCString { text in
          table.symbol(
            at: FileAddress(start),
            preferring: TextReference(base: UnsafeRawPointer(text), count: strlen(text))
          )
        }
      }
      #expect(found.count == names.count && found.allSatisfy { $0.range.start == start }, "\(image.path): \(names)")
    }
    return count
  }

  private func isSame(_ ours: TextReference?, _ theirs: UnsafePointer<CChar>?) -> Bool {
    guard let ours, let theirs else { return ours == nil && theirs == nil }
    return strlen(theirs) == ours.count && memcmp(theirs, ours.base, ours.count) == 0
  }

  // MARK: Line tables

  @Test(arguments: [
    "g++ -O2 -gdwarf-2", "g++ -O2 -gdwarf-4 -gdwarf64", "g++ -O2 -gdwarf-5 -gz=zlib", "g++ -O0 -g -no-pie",
    "clang++ -O2 -gdwarf-3", "clang++ -O1 -gdwarf-5", "clang++ -O2 -gdwarf-4 -fdebug-types-section",
    "clang++ -O2 -gdwarf-5 -fuse-ld=lld -ffunction-sections -Wl,--gc-sections",
  ])
  func compiledLineTablesMatchLibdw(compiler: String) throws {
    let fixture = Fixture()
    try fixture.write("#include <map>\n#include <string>\n" + nestedCalls, "nested.cpp")
    try fixture.write(
      """
      #include <map>
      #include <string>
      std::map<std::string, int> prices(const char **words, int count) {
        std::map<std::string, int> prices;
        for (int place = 0; place < count; place++) prices[words[place]] += place;
        return prices;
      }
      """,
      "prices.cpp"
    )
    try fixture.run("\(compiler) -o nested nested.cpp prices.cpp")
    #expect(try compareLines(fixture.path("nested"), unitsMax: .max) > 100)
  }

  @Test func installedLineTablesMatchLibdw() throws {
    // The test program is always present, and compiled by swiftc.
    var files = [try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")]
    files += try Self.sample(.max).filter { Self.isWhole || $0.hasPrefix("/usr/lib/debug/") }.prefix(
      Self.isWhole ? .max : 6
    )
    var rows = 0
    for path in files { rows += try compareLines(path, unitsMax: Self.isWhole ? .max : 12) }
    #expect(rows > 1000, Self.hint)
  }

  /// Compares the line tables of up to `unitsMax` units. Returns the number of rows.
  private func compareLines(_ path: String, unitsMax: Int) throws -> Int {
    let oracle = try OracleFile(path)
    guard oracle.header.e_type != ET_REL, let dwarf = OracleDwarf(oracle), let image = try? ElfImage(path: path),
      let file = try? DwarfFile(image)
    else { return 0 }
    var alternate: DwarfFile?
    if case .found(let found) = DebugFiles(search: DebugSearch()).alternate(for: image) {
      alternate = try DwarfFile(found)
    }
    file.alternate = alternate
    let units = dwarf.units(ofTypes: false)
    #expect(file.allHeaders.map(\.offset) == units.map { Int($0.offset) }, "\(path)")
    let types = dwarf.units(ofTypes: true)
    #expect(file.types?.allHeaders.map(\.type?.signature) ?? [] == types.map(\.signature), "\(path)")
    #expect(file.types?.allHeaders.map(\.type?.entry) ?? [] == types.map { $0.type.map { Int($0) } }, "\(path)")
    let code = oracle.sections.map(\.header).filter { $0.sh_flags & 6 == 6 }
    var random = SplitMix(Self.seed)
    var count = 0
    for unit in units.count > unitsMax ? Array(units.shuffled(using: &random).prefix(unitsMax)) : units {
      let rows = dwarf.rows(of: unit)
      guard !rows.isEmpty, let header = file.header(at: Int(unit.offset)) else { continue }
      let own = file.unit(header)
      guard let place = own.statementList,
        let table = LineTable(file, at: place, directory: own.directory, addressBytes: header.encoding.addressBytes)
      else {
        record("\(path): the unit at \(unit.offset) has no line table, libdw has \(rows.count) rows")
        continue
      }
      count += rows.count
      // The last row of a sequence marks its end and can have no code.
      let ends = Set(rows.filter(\.endsSequence).map(\.address))
      var differences = 0
      for (row, next) in zip(rows, rows.dropFirst()) where !row.endsSequence && next.address > row.address {
        guard code.contains(where: { $0.sh_addr <= row.address && row.address - $0.sh_addr < $0.sh_size }) else {
          continue
        }
        let found = table.row(at: row.address)
        let isSame =
          found.map {
            Int32($0.row.line) == row.line && Int32($0.row.column) == min(row.column, 0xffff)
              && $0.discriminator == row.discriminator && (table.path($0.row.file) ?? "") == row.file
          } ?? ends.contains(row.address)
        if !isSame {
          differences += 1
          let text = found.map { "\($0) \(table.path($0.row.file) ?? "??")" } ?? "nothing"
          if differences < 4 { record("\(path), unit \(unit.offset): \(text), which is \(row) to libdw") }
        }
      }
      if differences >= 4 { record("\(path), unit \(unit.offset): \(differences) of \(rows.count) rows differ") }
    }
    return count
  }
}

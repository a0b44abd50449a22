import CCulpritElf
import Foundation

@testable import CulpritSymbols

/// A file read by libelf and libdw (elfutils).
final class OracleFile {
  /// The elfutils do not recognize the file as ELF.
  struct Unreadable: Error {}

  let elf: OpaquePointer
  private let descriptor: Int32

  init(_ path: String) throws {
    elf_version(UInt32(EV_CURRENT))
    descriptor = open(path, O_RDONLY | O_CLOEXEC)
    guard descriptor >= 0 else { throw Unreadable() }
    guard let elf = elf_begin(descriptor, ELF_C_READ_MMAP, nil) else {
      close(descriptor)
      throw Unreadable()
    }
    self.elf = elf
    guard elf_kind(elf) == ELF_K_ELF else { throw Unreadable() }
  }

  deinit {
    elf_end(elf)
    close(descriptor)
  }

  var header: GElf_Ehdr {
    var header = GElf_Ehdr()
    gelf_getehdr(elf, &header)
    return header
  }

  /// The sections with their headers, including number 0.
  var sections: [(section: OpaquePointer, header: GElf_Shdr)] {
    var count = 0
    guard elf_getshdrnum(elf, &count) == 0 else { return [] }
    return (0..<count)
      .compactMap { number in
        var header = GElf_Shdr()
        guard let section = elf_getscn(elf, number), gelf_getshdr(section, &header) != nil else { return nil }
        return (section, header)
      }
  }

  var segments: [GElf_Phdr] {
    var count = 0
    guard elf_getphdrnum(elf, &count) == 0 else { return [] }
    return (0..<count)
      .compactMap { number in
        var header = GElf_Phdr()
        return gelf_getphdr(elf, Int32(number), &header) == nil ? nil : header
      }
  }

  func text(_ table: UInt32, _ offset: UInt32) -> UnsafePointer<CChar>? {
    UnsafePointer(elf_strptr(elf, Int(table), Int(offset)))
  }

  func name(of header: GElf_Shdr) -> String {
    var table = 0
    guard elf_getshdrstrndx(elf, &table) == 0, let name = text(UInt32(table), header.sh_name) else { return "" }
    return String(cString: name)
  }

  static func notes(_ data: UnsafeMutablePointer<Elf_Data>?) -> [OracleNote] {
    guard let data, let base = data.pointee.d_buf else { return [] }
    let bytes = UnsafeRawBufferPointer(start: base, count: data.pointee.d_size)
    var notes: [OracleNote] = []
    var (place, name, descriptor) = (0, 0, 0)
    var header = GElf_Nhdr()
    while true {
      place = gelf_getnote(data, place, &header, &name, &descriptor)
      guard place > 0 else { return notes }
      notes.append(
        OracleNote(
          type: header.n_type,
          name: Array(bytes[name..<name + Int(header.n_namesz)]),
          descriptor: Array(bytes[descriptor..<descriptor + Int(header.n_descsz)])
        )
      )
    }
  }

  func notes(_ segment: GElf_Phdr) -> [OracleNote] {
    let type = segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR
    return Self.notes(elf_getdata_rawchunk(elf, Int64(segment.p_offset), Int(segment.p_filesz), type))
  }

  var buildID: [UInt8] {
    var id: UnsafeRawPointer?
    let count = dwelf_elf_gnu_build_id(elf, &id)
    return count > 0 ? Array(UnsafeRawBufferPointer(start: id, count: Int(count))) : []
  }
}

struct OracleNote: Equatable {
  var type: UInt32
  var name: [UInt8]
  var descriptor: [UInt8]

  init(type: UInt32, name: [UInt8], descriptor: [UInt8]) {
    (self.type, self.name, self.descriptor) = (type, name, descriptor)
  }

  init(_ note: ElfNote) { self.init(type: note.type, name: note.name.array, descriptor: note.descriptor.array) }
}

final class OracleDwarf {
  struct Row {
    var address: UInt64
    var line: Int32
    var column: Int32
    var discriminator: UInt32
    var file: String
    var endsSequence: Bool
  }

  private let file: OracleFile
  private let dwarf: OpaquePointer

  /// Returns `nil` if `file` has no debug information.
  init?(_ file: OracleFile) {
    self.file = file
    guard let dwarf = dwarf_begin_elf(file.elf, DWARF_C_READ, nil) else { return nil }
    self.dwarf = dwarf
  }

  deinit { dwarf_end(dwarf) }

  /// The offsets of a unit and its first entry. A type unit also has its signature and the type's offset.
  struct Unit: Equatable {
    var offset: UInt64
    var firstEntry: UInt64
    var signature: UInt64?
    var type: UInt64?
  }

  func units(ofTypes: Bool) -> [Unit] {
    var units: [Unit] = []
    var (offset, next, table, type): (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    var (size, version, address, width): (Int, UInt16, UInt8, UInt8) = (0, 0, 0, 0)
    var signature: UInt64 = 0
    func read(_ signature: UnsafeMutablePointer<UInt64>?, _ type: UnsafeMutablePointer<UInt64>?) -> Int32 {
      dwarf_next_unit(dwarf, offset, &next, &size, &version, &table, &address, &width, signature, type)
    }
    while true {
      let status = ofTypes ? read(&signature, &type) : read(nil, nil)
      guard status == 0 else { return units }
      units.append(
        Unit(
          offset: offset,
          firstEntry: offset + UInt64(size),
          signature: ofTypes ? signature : nil,
          type: ofTypes ? offset + type : nil
        )
      )
      offset = next
    }
  }

  /// Returns `path` below `directory`, without libdw's duplicate slash. In DWARF 5, libdw's path can begin with a
  /// relative directory.
  private static func path(_ path: String, in directory: String?) -> String {
    if path.hasPrefix("//") { return String(path.dropFirst()) }
    guard let directory, !path.hasPrefix("/"), !path.hasPrefix(directory + "/") else { return path }
    return directory + (directory.hasSuffix("/") ? "" : "/") + path
  }

  func rows(of unit: Unit) -> [Row] {
    var entry = Dwarf_Die()
    var lines: OpaquePointer?
    var count = 0
    guard dwarf_offdie(dwarf, unit.firstEntry, &entry) != nil, dwarf_getsrclines(&entry, &lines, &count) == 0 else {
      return []
    }
    var attribute = Dwarf_Attribute()
    let directory = dwarf_formstring(dwarf_attr(&entry, UInt32(Attribute.compilationDirectory), &attribute))
      .map { String(cString: $0) }
    return (0..<count)
      .compactMap { number in
        guard let line = dwarf_onesrcline(lines, number) else { return nil }
        var row = Row(address: 0, line: 0, column: 0, discriminator: 0, file: "", endsSequence: false)
        dwarf_lineaddr(line, &row.address)
        dwarf_lineno(line, &row.line)
        dwarf_linecol(line, &row.column)
        dwarf_linediscriminator(line, &row.discriminator)
        dwarf_lineendsequence(line, &row.endsSequence)
        if let path = dwarf_linesrc(line, nil, nil) { row.file = Self.path(String(cString: path), in: directory) }
        return row
      }
  }
}

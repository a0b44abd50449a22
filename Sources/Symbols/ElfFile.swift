import CElfutils
import Glibc
import StallRecord

/// A sentence about a file that could not be used.
struct ElfError: Error {
  var text: String
}

/// An ELF file: its segments, its build-id and its symbols.
///
/// A thin face of libelf, which reads the file as needed and checks the offsets in it.
final class ElfFile {
  /// The opened file, for libdw.
  let elf: OpaquePointer
  /// The linker's build-id, empty when there is none.
  let buildID: [UInt8]
  private let descriptor: Int32
  private let segments: [GElf_Phdr]
  private var stringTable: Int = 0

  /// The symbols that name code; made at the first look-up.
  private(set) lazy var symbols: SymbolIndex = loadSymbols()

  /// The starts of functions as the unwind table has them, sorted: they delimit functions where symbols were stripped.
  private(set) lazy var functionStarts: [UInt64] = loadFunctionStarts()

  /// Opens the file at `path`.
  ///
  /// - Throws: ``ElfError`` when it cannot be opened or is not an ELF file.
  init(path: String) throws(ElfError) {
    guard elf_version(UInt32(EV_CURRENT)) != UInt32(EV_NONE) else {
      throw ElfError(text: "libelf does not know ELF version \(EV_CURRENT)")
    }
    guard !path.utf8.contains(0) else { throw ElfError(text: "the path has a NUL in it") }
    // Without O_NONBLOCK a FIFO at the place would be waited for.
    descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard descriptor >= 0 else { throw ElfError(text: "cannot open \(path): \(String(cString: strerror(errno)))") }
    var information = stat()
    guard fstat(descriptor, &information) == 0, information.st_mode & S_IFMT == S_IFREG else {
      close(descriptor)
      throw ElfError(text: "\(path) is not a regular file")
    }
    // Not mapped: a file that is cut while it is read must not end the process with SIGBUS.
    guard let elf = elf_begin(descriptor, ELF_C_READ, nil) else {
      close(descriptor)
      throw ElfError(text: "cannot read \(path): \(Self.lastError)")
    }
    guard elf_kind(elf) == ELF_K_ELF else {
      elf_end(elf)
      close(descriptor)
      throw ElfError(text: "\(path) is not an ELF file")
    }
    self.elf = elf
    segments = Self.readSegments(elf)
    buildID = Self.readBuildID(elf, segments)
  }

  deinit {
    elf_end(elf)
    close(descriptor)
  }

  /// The address that the byte at `offset` of the file is linked at, or `nil` when no segment loads it.
  func fileAddress(ofOffset offset: UInt64) -> FileAddress? {
    for segment in segments where segment.p_type == UInt32(PT_LOAD) {
      if offset >= segment.p_offset, offset - segment.p_offset < segment.p_filesz {
        return FileAddress(offset - segment.p_offset &+ segment.p_vaddr)
      }
    }
    return nil
  }

  /// The name in the symbol table that `symbol` comes from.
  func name(of symbol: SymbolIndex.Symbol) -> String? {
    guard let name = elf_strptr(elf, stringTable, Int(symbol.name)) else { return nil }
    // SAFETY: libelf returns a string only if it ends inside its section, which stays in memory while `elf` is open.
    return String(cString: name)
  }

  /// The start of the function that covers `address` according to the unwind table.
  func functionStart(at address: FileAddress) -> FileAddress? {
    let starts = functionStarts
    var low = 0
    var high = starts.count
    while low < high {
      let middle = (low + high) / 2
      if starts[middle] <= address.value { low = middle + 1 } else { high = middle }
    }
    guard low > 0, address.value < endOfCode(at: starts[low - 1]) else { return nil }
    return FileAddress(starts[low - 1])
  }

  private static var lastError: String { elf_errmsg(-1).map { String(cString: $0) } ?? "unknown error" }

  private static func readSegments(_ elf: OpaquePointer) -> [GElf_Phdr] {
    var count = 0
    guard elf_getphdrnum(elf, &count) == 0 else { return [] }
    var segments: [GElf_Phdr] = []
    for index in 0..<count {
      var segment = GElf_Phdr()
      guard let position = Int32(exactly: index), gelf_getphdr(elf, position, &segment) != nil else { break }
      segments.append(segment)
    }
    return segments
  }

  private static func readBuildID(_ elf: OpaquePointer, _ segments: [GElf_Phdr]) -> [UInt8] {
    for segment in segments where segment.p_type == UInt32(PT_NOTE) {
      guard let offset = Int64(exactly: segment.p_offset), let size = Int(exactly: segment.p_filesz),
        let data = elf_getdata_rawchunk(elf, offset, size, segment.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR),
        let bytes = data.pointee.d_buf
      else { continue }
      var position = 0
      var note = GElf_Nhdr()
      var name = 0
      var description = 0
      while true {
        position = gelf_getnote(data, position, &note, &name, &description)
        guard position > 0 else { break }
        guard note.n_type == UInt32(NT_GNU_BUILD_ID), note.n_namesz == 4 else { continue }
        // SAFETY: gelf_getnote has checked that name and description lie inside the chunk.
        let isGNU = memcmp(bytes + name, "GNU", 4) == 0
        if isGNU {
          let start = (bytes + description).assumingMemoryBound(to: UInt8.self)
          return Array(UnsafeBufferPointer(start: start, count: Int(note.n_descsz)))
        }
      }
    }
    return []
  }

  private func loadSymbols() -> SymbolIndex {
    var table: (section: OpaquePointer, header: GElf_Shdr)?
    var section: OpaquePointer?
    while let next = elf_nextscn(elf, section) {
      section = next
      var header = GElf_Shdr()
      guard gelf_getshdr(next, &header) != nil else { continue }
      // .symtab holds all that .dynsym does, and the local functions.
      if header.sh_type == UInt32(SHT_SYMTAB) || (header.sh_type == UInt32(SHT_DYNSYM) && table == nil) {
        table = (next, header)
      }
    }
    guard let table, table.header.sh_entsize > 0, let data = elf_getdata(table.section, nil) else {
      return SymbolIndex([], limit: { $0 })
    }
    stringTable = Int(table.header.sh_link)
    let entryBytes = Int(exactly: table.header.sh_entsize) ?? .max
    let count = min(data.pointee.d_size / entryBytes, Int(Int32.max))
    var symbols: [SymbolIndex.Symbol] = []
    symbols.reserveCapacity(count)
    for index in 0..<count {
      var entry = GElf_Sym()
      guard gelf_getsym(data, Int32(index), &entry) != nil else { break }
      if let symbol = codeSymbol(entry) { symbols.append(symbol) }
    }
    return SymbolIndex(symbols, limit: endOfCode)
  }

  private func codeSymbol(_ entry: GElf_Sym) -> SymbolIndex.Symbol? {
    guard entry.st_shndx != UInt16(SHN_UNDEF), entry.st_shndx < UInt16(SHN_LORESERVE), entry.st_value != 0,
      entry.st_name != 0
    else { return nil }
    let rank: SymbolIndex.Symbol.Rank
    switch Int32(entry.st_info & 0xf) {
    case STT_FUNC, STT_GNU_IFUNC:
      switch Int32(entry.st_info >> 4) {
      case STB_GLOBAL: rank = .globalFunction
      case STB_WEAK: rank = .weakFunction
      default: rank = .localFunction
      }
    case STT_NOTYPE: rank = .label
    default: return nil
    }
    let start = entry.st_value
    guard endOfCode(at: start) > start else { return nil }
    // $x and $d, with any ending, mark code and data for disassemblers (ELF for the Arm 64-bit Architecture, 5.6.2).
    if rank == .label, let name = elf_strptr(elf, stringTable, Int(entry.st_name)), name[0] == UInt8(ascii: "$"),
      name[1] == UInt8(ascii: "x") || name[1] == UInt8(ascii: "d"), name[2] == 0 || name[2] == UInt8(ascii: ".")
    {
      return nil
    }
    let (end, overflow) = start.addingReportingOverflow(entry.st_size)
    return SymbolIndex.Symbol(start: start, end: overflow ? start : end, rank: rank, name: entry.st_name)
  }

  /// Whether `address` is in a section of stubs that the linker made.
  func isLinkageStub(_ address: FileAddress) -> Bool {
    codeSections.contains { $0.isStubs && $0.start <= address.value && address.value < $0.end }
  }

  /// The sections with code in them; none when the file has no section headers.
  private lazy var codeSections: [CodeSection] = loadCodeSections()

  private struct CodeSection {
    var start: UInt64
    var end: UInt64
    var isStubs: Bool
  }

  private func loadCodeSections() -> [CodeSection] {
    var sections: [CodeSection] = []
    var names = 0
    guard elf_getshdrstrndx(elf, &names) == 0 else { return [] }
    var section: OpaquePointer?
    while let next = elf_nextscn(elf, section) {
      section = next
      var header = GElf_Shdr()
      guard gelf_getshdr(next, &header) != nil, header.sh_flags & UInt64(SHF_EXECINSTR) != 0 else { continue }
      let (end, overflow) = header.sh_addr.addingReportingOverflow(header.sh_size)
      guard !overflow, end > header.sh_addr else { continue }
      // SAFETY: libelf returns a string that ends inside its section.
      let name = elf_strptr(elf, names, Int(header.sh_name)).map { String(cString: $0) } ?? ""
      sections.append(CodeSection(start: header.sh_addr, end: end, isStubs: name.hasPrefix(".plt")))
    }
    return sections.sorted { $0.start < $1.start }
  }

  /// The end of the code that contains `address`: of its section, or where there are none of its segment; `address` itself
  /// when it is not in code.
  private func endOfCode(at address: UInt64) -> UInt64 {
    if !codeSections.isEmpty {
      return codeSections.last { $0.start <= address && address < $0.end }?.end ?? address
    }
    for segment in segments where segment.p_type == UInt32(PT_LOAD) && segment.p_flags & UInt32(PF_X) != 0 {
      if address >= segment.p_vaddr, address - segment.p_vaddr < segment.p_memsz {
        return segment.p_vaddr &+ segment.p_memsz
      }
    }
    return address
  }

  /// Reads the sorted table of `.eh_frame_hdr`, in the encoding that linkers write (Linux Standard Base, "Exception
  /// Frames"): pairs of 32-bit offsets from the section's beginning, function first.
  private func loadFunctionStarts() -> [UInt64] {
    guard let segment = segments.first(where: { $0.p_type == UInt32(PT_GNU_EH_FRAME) }),
      let offset = Int64(exactly: segment.p_offset), let size = Int(exactly: segment.p_filesz), size >= 12,
      let data = elf_getdata_rawchunk(elf, offset, size, ELF_T_BYTE), let bytes = data.pointee.d_buf
    else { return [] }
    // SAFETY: libelf has checked that the chunk of `size` bytes lies inside the file; `elf` keeps it.
    let raw = UnsafeRawBufferPointer(start: bytes, count: size)
    guard raw[0] == 1, raw[1] == 0x1b, raw[2] == 0x03, raw[3] == 0x3b else { return [] }
    let claimed = Int(UInt32(littleEndian: raw.loadUnaligned(fromByteOffset: 8, as: UInt32.self)))
    return (0..<min(claimed, (size - 12) / 8))
      .map { index in
        let start = Int32(littleEndian: raw.loadUnaligned(fromByteOffset: 12 + index * 8, as: Int32.self))
        return segment.p_vaddr &+ UInt64(bitPattern: Int64(start))
      }
      .sorted()
  }
}

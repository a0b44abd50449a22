/// The stubs of the procedure linkage table (PLT) for calls into other modules, with the names of their targets.
/// Relocations name a function for each entry of the global offset table (GOT). The instructions of a stub refer to its
/// entry.
struct PLTStubs {
  enum Target {
    case function(TextReference)
    /// An implementation (IFUNC), selected at program start by the function at this address.
    case resolver(UInt64)
    case unknown
  }

  private struct Section {
    var range: AddressRange
    var bytes: Bytes
    var entryBytes: UInt64
  }

  private typealias Machine = ElfFormat.Machine

  private var sections: [Section] = []
  private var targets: [UInt64: Target] = [:]
  private let machine: UInt16
  /// The address in a register to which position-independent x86 stubs are relative.
  private let gotBase: UInt64?

  init(_ image: ElfImage) {
    machine = image.machine
    let got = image.sections.first { $0.name == ".got.plt" } ?? image.sections.first { $0.name == ".got" }
    gotBase = got?.address
    for section in image.sections where section.isCode && section.name.hasPrefix(".plt") {
      guard let end = section.end, end > section.address else { continue }
      // Instructions are little-endian, even in big-endian files for aarch64.
      let bytes = (image.raw(section) ?? .none).ordered(isBigEndian: false)
      // Stubs for aarch64 have 16 or 24 bytes, so they are found by their instructions.
      let isArm = machine == Machine.aarch64
      // In a program without libraries, the entries of .plt are as short as those of .plt.got.
      let isShort = section.name == ".plt.got" || machine == Machine.amd64 && section.alignment == 8
      let entryBytes: UInt64 = isArm ? 4 : isShort ? 8 : 16
      sections.append(
        Section(
          range: AddressRange(start: section.address, end: end),
          bytes: bytes,
          entryBytes: entryBytes
        )
      )
    }
    guard !sections.isEmpty else { return }
    readRelocations(image)
  }

  func target(at address: UInt64) -> Target? {
    guard let section = sections.first(where: { $0.range.contains(address) }) else { return nil }
    let start = (address - section.range.start) / section.entryBytes * section.entryBytes
    return gotEntry(in: section, at: start).flatMap { targets[$0] } ?? .unknown
  }

  private mutating func readRelocations(_ image: ElfImage) {
    let is64 = image.is64
    let (word, symbolBytes) = (is64 ? 8 : 4, ElfSymbol.byteCount(is64: is64))
    for section in image.sections {
      let hasAddend = section.type == ElfFormat.relocationsWithAddend
      let entryBytes = hasAddend ? word * 3 : word * 2
      guard hasAddend || section.type == ElfFormat.relocations, section.entrySize == entryBytes,
        let relocations = image.raw(section)
      else { continue }
      let (table, texts) = symbols(image, section.link) ?? (.none, .none)
      var cursor = relocations.cursor()
      while cursor.remaining >= entryBytes {
        let (gotEntry, information) = (cursor.offset(isWide: is64), cursor.offset(isWide: is64))
        let addend = hasAddend ? cursor.offset(isWide: is64) : nil
        let type = UInt32(truncatingIfNeeded: is64 ? information : information & 0xff)
        if let addend, isChosen(type) { targets[gotEntry] = .resolver(addend) }
        guard isJump(type) else { continue }
        var symbol = table.cursor(at: Int(information >> (is64 ? 32 : 8)) * symbolBytes)
        let name = Int(symbol.u32())
        guard !symbol.hasFailed, name != 0, let text = texts.text(at: name) else { continue }
        targets[gotEntry] = .function(text)
      }
    }
  }

  private func symbols(_ image: ElfImage, _ number: UInt32) -> (table: Bytes, texts: Bytes)? {
    guard image.sections.indices.contains(Int(number)) else { return nil }
    let section = image.sections[Int(number)]
    guard section.type == ElfFormat.dynamicSymbolTable, image.sections.indices.contains(Int(section.link)),
      let table = image.raw(section), let texts = image.raw(image.sections[Int(section.link)])
    else { return nil }
    return (table, texts)
  }

  /// R_X86_64_IRELATIVE, R_AARCH64_IRELATIVE.
  private func isChosen(_ type: UInt32) -> Bool {
    machine == Machine.amd64 && type == 37 || machine == Machine.aarch64 && type == 1032
  }

  private func isJump(_ type: UInt32) -> Bool {
    switch machine {
    // R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT; R_386_JUMP_SLOT, R_386_GLOB_DAT.
    case Machine.amd64, Machine.i386: type == 7 || type == 6
    // R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT.
    case Machine.aarch64: type == 1026 || type == 1025
    default: false
    }
  }

  private func gotEntry(in section: Section, at start: UInt64) -> UInt64? {
    guard let offset = Int(exactly: start) else { return nil }
    switch machine {
    case Machine.amd64: return amd64Entry(in: section, at: offset)
    case Machine.i386: return i386Entry(in: section, at: offset)
    case Machine.aarch64: return aarch64Entry(in: section, at: offset)
    default: return nil
    }
  }

  private func amd64Entry(in section: Section, at offset: Int) -> UInt64? {
    // [endbr64] [bnd] jmp *gotEntry(%rip): ff 25 and a distance from the next instruction.
    for prefix in 0...6 {
      var cursor = section.bytes.cursor(at: offset + prefix)
      guard cursor.u16() == 0x25ff else { continue }
      let distance = Int32(bitPattern: cursor.u32())
      if cursor.hasFailed { return nil }
      return section.range.start &+ UInt64(offset + prefix) &+ 6 &+ UInt64(bitPattern: Int64(distance))
    }
    return nil
  }

  private func i386Entry(in section: Section, at offset: Int) -> UInt64? {
    // [endbr32] jmp *gotEntry: ff 25 and the address. jmp *distance(%ebx): ff a3 and the distance from the table.
    for prefix in 0...4 {
      var cursor = section.bytes.cursor(at: offset + prefix)
      let (opcode, operand) = (cursor.u16(), cursor.u32())
      guard opcode == 0x25ff || opcode == 0xa3ff, !cursor.hasFailed else { continue }
      if opcode == 0x25ff { return UInt64(operand) }
      return gotBase.map { ($0 &+ UInt64(operand)) & UInt64(UInt32.max) }
    }
    return nil
  }

  private func aarch64Entry(in section: Section, at offset: Int) -> UInt64? {
    // [bti c] adrp x16, page; ldr x17, [x16, offset]; add x16, x16, offset; [autia1716] br x17; [nop]
    var first = section.bytes.cursor(at: offset)
    let last = first.u32() == 0xd503_245f ? offset + 4 : offset
    for place in stride(from: last, through: max(last - 16, 0), by: -4) {
      var cursor = section.bytes.cursor(at: place)
      let (page, load) = (cursor.u32(), cursor.u32())
      guard !cursor.hasFailed, page & 0x9f00_001f == 0x9000_0010, load & 0xffc0_03ff == 0xf940_0211 else { continue }
      let high = Int64(Int32(bitPattern: page << 8) >> 13) << 2 | Int64((page >> 29) & 3)
      let here = (section.range.start &+ UInt64(place)) & ~0xfff
      return here &+ UInt64(bitPattern: high << 12) &+ UInt64((load >> 10) & 0xfff) * 8
    }
    return nil
  }
}

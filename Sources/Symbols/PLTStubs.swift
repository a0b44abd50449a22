/// The stubs of the procedure linkage table (PLT), for calls into other modules, with the names of what they lead to.
///
/// The relocations of the table (`.rela.plt`) name a function for each entry of the global offset table;
/// what a stub jumps through is read from its instructions, where the processor is known.
struct PLTStubs {
  private struct Section {
    var range: AddressRange
    var bytes: Bytes
    var entryBytes: UInt64
  }

  private var sections: [Section] = []
  private var names: [UInt64: String] = [:]
  private let machine: UInt16
  private static let x86: UInt16 = 62
  private static let arm: UInt16 = 183

  init(_ image: ElfImage) {
    machine = image.machine
    for section in image.sections where section.isCode && section.name.hasPrefix(".plt") {
      guard let end = section.end, end > section.address else { continue }
      let bytes = image.raw(section) ?? .none
      sections.append(
        Section(
          range: AddressRange(start: section.address, end: end),
          bytes: bytes,
          entryBytes: section.name == ".plt.got" && machine == Self.x86 ? 8 : 16
        )
      )
    }
    guard !sections.isEmpty else { return }
    readRelocations(image)
  }

  /// The name of the stub at `address`; `nil` when there is none, empty when it is not known what it leads to.
  func name(at address: UInt64) -> String? {
    guard let section = sections.first(where: { $0.range.contains(address) }) else { return nil }
    let start = (address - section.range.start) / section.entryBytes * section.entryBytes
    guard let gotEntry = gotEntry(in: section, at: start), let name = names[gotEntry] else { return "" }
    return name + "@plt"
  }

  private mutating func readRelocations(_ image: ElfImage) {
    for section in image.sections where section.type == 4 && section.entrySize == 24 {
      guard image.sections.indices.contains(Int(section.link)), let relocations = image.raw(section) else { continue }
      let symbols = image.sections[Int(section.link)]
      guard symbols.type == ElfFormat.dynamicSymbolTable, let table = image.raw(symbols),
        image.sections.indices.contains(Int(symbols.link)), let texts = image.raw(image.sections[Int(symbols.link)])
      else { continue }
      var cursor = relocations.cursor()
      while cursor.remaining >= 24 {
        let (gotEntry, information, _) = (cursor.u64(), cursor.u64(), cursor.u64())
        let type = UInt32(truncatingIfNeeded: information)
        // R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT; R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT.
        guard machine == Self.x86 ? type == 7 || type == 6 : type == 1026 || type == 1025 else { continue }
        var symbol = table.cursor(at: Int(information >> 32) * 24)
        let name = Int(symbol.u32())
        guard !symbol.hasFailed, name != 0, let text = texts.text(at: name) else { continue }
        names[gotEntry] = text.string
      }
    }
  }

  /// The entry of the global offset table that the stub at `start` of `section` jumps through.
  private func gotEntry(in section: Section, at start: UInt64) -> UInt64? {
    guard let offset = Int(exactly: start) else { return nil }
    if machine == Self.x86 {
      // [endbr64] [bnd] jmp *gotEntry(%rip): ff 25 and a distance from the next instruction.
      for prefix in 0...6 {
        var cursor = section.bytes.cursor(at: offset + prefix)
        guard cursor.u16() == 0x25ff else { continue }
        let distance = Int32(bitPattern: cursor.u32())
        if cursor.hasFailed { return nil }
        return section.range.start &+ start &+ UInt64(prefix) &+ 6 &+ UInt64(bitPattern: Int64(distance))
      }
      return nil
    }
    guard machine == Self.arm else { return nil }
    // [bti c] adrp x16, page; ldr x17, [x16, offset]
    for prefix in [0, 4] {
      var cursor = section.bytes.cursor(at: offset + prefix)
      let (page, load) = (cursor.u32(), cursor.u32())
      guard !cursor.hasFailed, page & 0x9f00_001f == 0x9000_0010, load & 0xffc0_03ff == 0xf940_0211 else { continue }
      let high = Int64(Int32(bitPattern: page << 8) >> 13) << 2 | Int64((page >> 29) & 3)
      let here = (section.range.start &+ start &+ UInt64(prefix)) & ~0xfff
      return here &+ UInt64(bitPattern: high << 12) &+ UInt64((load >> 10) & 0xfff) * 8
    }
    return nil
  }
}

/// The tables of an ELF file of 32 or 64 bits, in the file's byte order.
enum ElfFormat {
  /// 0x7f, "ELF".
  static let magic: UInt32 = 0x464c_457f
  static let objectFile: UInt16 = 1
  static let coreDump: UInt16 = 4
  static let loadSegment: UInt32 = 1
  static let noteSegment: UInt32 = 4
  static let unwindSegment: UInt32 = 0x6474_e550
  static let symbolTable: UInt32 = 2
  static let dynamicSymbolTable: UInt32 = 11
  static let noBits: UInt32 = 8
  static let noteSection: UInt32 = 7
  static let relocationsWithAddend: UInt32 = 4
  static let relocations: UInt32 = 9
  static let allocatedFlag: UInt64 = 2
  static let executableFlag: UInt64 = 4
  static let compressedFlag: UInt64 = 0x800

  enum Machine {
    static let i386: UInt16 = 3
    static let mips: UInt16 = 8
    static let powerPC64: UInt16 = 21
    static let arm: UInt16 = 40
    static let amd64: UInt16 = 62
    static let aarch64: UInt16 = 183
  }

  struct Header {
    var is64: Bool
    var type: UInt16
    var machine: UInt16
    var entry: UInt64
    var segmentOffset: UInt64
    var sectionOffset: UInt64
    var segmentCount: UInt16
    var segmentEntry: UInt16
    var sectionEntry: UInt16
    var sectionCount: UInt16
    var nameSection: UInt16

    init?(_ bytes: Bytes, is64: Bool) {
      self.is64 = is64
      var cursor = bytes.cursor(at: 16)
      (type, machine) = (cursor.u16(), cursor.u16())
      _ = cursor.u32()
      entry = cursor.offset(isWide: is64)
      (segmentOffset, sectionOffset) = (cursor.offset(isWide: is64), cursor.offset(isWide: is64))
      _ = cursor.u32()
      _ = cursor.u16()
      (segmentEntry, segmentCount) = (cursor.u16(), cursor.u16())
      (sectionEntry, sectionCount, nameSection) = (cursor.u16(), cursor.u16(), cursor.u16())
      if cursor.hasFailed { return nil }
    }
  }

  static func sections(_ bytes: Bytes, _ header: Header) -> [(section: ElfImage.Section, name: UInt32)] {
    let is64 = header.is64
    let entry = is64 ? 64 : 40
    guard header.sectionOffset != 0, Int(header.sectionEntry) == entry,
      let offset = Int(exactly: header.sectionOffset), offset < bytes.count
    else { return [] }
    var count = Int(header.sectionCount)
    let room = (bytes.count - offset) / entry
    if count == 0, room > 0 {
      // If the count does not fit into the header's field, the first section's size is the count.
      var first = bytes.cursor(at: offset + (is64 ? 32 : 20))
      count = Int(exactly: first.offset(isWide: is64)) ?? 0
    }
    return (0..<min(count, room))
      .map { index in
        var cursor = bytes.cursor(at: offset + index * entry)
        let (name, type, flags) = (cursor.u32(), cursor.u32(), cursor.offset(isWide: is64))
        let (address, place) = (cursor.offset(isWide: is64), cursor.offset(isWide: is64))
        let (size, link, info) = (cursor.offset(isWide: is64), cursor.u32(), cursor.u32())
        let (alignment, entrySize) = (cursor.offset(isWide: is64), cursor.offset(isWide: is64))
        let section = ElfImage.Section(
          name: "",
          type: type,
          flags: flags,
          address: address,
          offset: place,
          size: size,
          link: link,
          info: info,
          alignment: alignment,
          entrySize: entrySize
        )
        return (section, name)
      }
  }

  static func named(
    _ raw: [(section: ElfImage.Section, name: UInt32)],
    _ bytes: Bytes,
    _ header: Header
  ) -> [ElfImage.Section] {
    let place = header.nameSection == 0xffff ? Int(raw.first?.section.link ?? 0) : Int(header.nameSection)
    let names = raw.indices.contains(place) ? bytes.part(raw[place].section.offset, raw[place].section.size) : nil
    return raw.map { section, name in
      var section = section
      section.name = names?.text(at: Int(name))?.string ?? ""
      return section
    }
  }

  static func segments(
    _ bytes: Bytes,
    _ header: Header,
    _ first: (section: ElfImage.Section, name: UInt32)?
  ) -> [ElfImage.Segment] {
    let is64 = header.is64
    let entry = is64 ? 56 : 32
    guard header.segmentOffset != 0, Int(header.segmentEntry) == entry,
      let offset = Int(exactly: header.segmentOffset), offset < bytes.count
    else { return [] }
    let count = header.segmentCount == 0xffff ? Int(first?.section.info ?? 0) : Int(header.segmentCount)
    return (0..<min(count, (bytes.count - offset) / entry))
      .map { index in
        var cursor = bytes.cursor(at: offset + index * entry)
        let type = cursor.u32()
        // In 32-bit files, the flags follow the sizes.
        var flags = is64 ? cursor.u32() : 0
        let place = cursor.offset(isWide: is64)
        let (address, _, fileSize) = (
          cursor.offset(isWide: is64), cursor.offset(isWide: is64), cursor.offset(isWide: is64)
        )
        let memorySize = cursor.offset(isWide: is64)
        if !is64 { flags = cursor.u32() }
        return ElfImage.Segment(
          type: type,
          flags: flags,
          offset: place,
          address: address,
          fileSize: fileSize,
          memorySize: memorySize,
          alignment: cursor.offset(isWide: is64)
        )
      }
  }

  /// Returns the descriptor of the note NT_GNU_BUILD_ID from a segment of notes or, in files without segments, from a
  /// section.
  static func buildID(_ bytes: Bytes, _ segments: [ElfImage.Segment], _ sections: [ElfImage.Section]) -> [UInt8] {
    for segment in segments where segment.type == noteSegment {
      guard let notes = bytes.part(segment.offset, segment.fileSize) else { continue }
      if let found = buildID(ElfNotes(notes, alignment: segment.alignment)) { return found }
    }
    for section in sections where section.type == noteSection {
      guard let notes = bytes.part(section.offset, section.size) else { continue }
      if let found = buildID(ElfNotes(notes, alignment: section.alignment)) { return found }
    }
    return []
  }

  private static func buildID(_ notes: ElfNotes) -> [UInt8]? {
    notes.first { $0.type == 3 && $0.name.count == 4 && $0.name.text(at: 0)?.equals("GNU") == true }?.descriptor.array
  }
}

/// A note, which a tool has stored in a file for other tools (System V ABI, chapter 5, "Note Section").
struct ElfNote {
  var type: UInt32
  var name: Bytes
  var descriptor: Bytes
}

struct ElfNotes: Sequence, IteratorProtocol {
  private let bytes: Bytes
  private let alignment: Int
  private var position = 0

  /// Reads the notes in `bytes`. Names and descriptors are padded to 8 bytes if the header's `alignment` is 8,
  /// otherwise to 4.
  init(_ bytes: Bytes, alignment: UInt64) {
    self.bytes = bytes
    self.alignment = alignment == 8 ? 8 : 4
  }

  mutating func next() -> ElfNote? {
    var cursor = bytes.cursor(at: position)
    let (nameSize, size, type) = (Int(cursor.u32()), Int(cursor.u32()), cursor.u32())
    guard !cursor.hasFailed, nameSize <= bytes.count, size <= bytes.count else { return nil }
    let place = aligned(position + 12 + nameSize)
    guard let name = bytes.part(UInt64(position + 12), UInt64(nameSize)),
      let descriptor = bytes.part(UInt64(place), UInt64(size))
    else { return nil }
    position = aligned(place + size)
    return ElfNote(type: type, name: name, descriptor: descriptor)
  }

  private func aligned(_ value: Int) -> Int { (value + alignment - 1) & ~(alignment - 1) }
}

/// An entry of a symbol table (System V ABI, chapter 4, "Symbol Table").
struct ElfSymbol {
  /// The offset of the name in the string table.
  var name: UInt32
  var info: UInt8
  var other: UInt8
  var section: UInt16
  var value: UInt64
  var size: UInt64

  static func byteCount(is64: Bool) -> Int { is64 ? 24 : 16 }

  @inline(__always) init(_ cursor: inout ByteCursor, is64: Bool) {
    name = cursor.u32()
    if is64 {
      (info, other, section) = (cursor.u8(), cursor.u8(), cursor.u16())
      (value, size) = (cursor.u64(), cursor.u64())
    } else {
      (value, size) = (UInt64(cursor.u32()), UInt64(cursor.u32()))
      (info, other, section) = (cursor.u8(), cursor.u8(), cursor.u16())
    }
  }

  var type: UInt8 { info & 0xf }
  var binding: UInt8 { info >> 4 }
}

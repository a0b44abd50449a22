/// The tables of an ELF file of 64 bits, little-endian.
enum ElfFormat {
  static let magic: UInt32 = 0x464c_457f
  static let loadSegment: UInt32 = 1
  static let noteSegment: UInt32 = 4
  static let unwindSegment: UInt32 = 0x6474_e550
  static let symbolTable: UInt32 = 2
  static let dynamicSymbolTable: UInt32 = 11
  static let noBits: UInt32 = 8
  static let noteSection: UInt32 = 7
  static let allocatedFlag: UInt64 = 2
  static let executableFlag: UInt64 = 4
  static let compressedFlag: UInt64 = 0x800
  static let fixedAddress: UInt16 = 2

  private static let sectionBytes = 64
  private static let segmentBytes = 56

  struct Header {
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

    init?(_ bytes: Bytes) {
      var cursor = bytes.cursor(at: 16)
      (type, machine) = (cursor.u16(), cursor.u16())
      _ = cursor.u32()
      entry = cursor.u64()
      (segmentOffset, sectionOffset) = (cursor.u64(), cursor.u64())
      _ = cursor.u32()
      _ = cursor.u16()
      (segmentEntry, segmentCount) = (cursor.u16(), cursor.u16())
      (sectionEntry, sectionCount, nameSection) = (cursor.u16(), cursor.u16(), cursor.u16())
      if cursor.hasFailed { return nil }
    }
  }

  /// The section headers, their names still numbers in ``ElfImage/Section/info`` of the result's second part.
  static func sections(_ bytes: Bytes, _ header: Header) -> [(section: ElfImage.Section, name: UInt32)] {
    guard header.sectionOffset != 0, Int(header.sectionEntry) == sectionBytes,
      let offset = Int(exactly: header.sectionOffset), offset < bytes.count
    else { return [] }
    var count = Int(header.sectionCount)
    let room = (bytes.count - offset) / sectionBytes
    if count == 0, room > 0 {
      // More than the header has room for: the first section says how many.
      var first = bytes.cursor(at: offset + 32)
      count = Int(exactly: first.u64()) ?? 0
    }
    return (0..<min(count, room))
      .map { index in
        var cursor = bytes.cursor(at: offset + index * sectionBytes)
        let (name, type, flags) = (cursor.u32(), cursor.u32(), cursor.u64())
        let (address, place, size) = (cursor.u64(), cursor.u64(), cursor.u64())
        let (link, info, _, entrySize) = (cursor.u32(), cursor.u32(), cursor.u64(), cursor.u64())
        let section = ElfImage.Section(
          name: "",
          type: type,
          flags: flags,
          address: address,
          offset: place,
          size: size,
          link: link,
          info: info,
          entrySize: entrySize
        )
        return (section, name)
      }
  }

  /// `raw` with their names.
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
    guard header.segmentOffset != 0, Int(header.segmentEntry) == segmentBytes,
      let offset = Int(exactly: header.segmentOffset), offset < bytes.count
    else { return [] }
    let count = header.segmentCount == 0xffff ? Int(first?.section.info ?? 0) : Int(header.segmentCount)
    return (0..<min(count, (bytes.count - offset) / segmentBytes))
      .map { index in
        var cursor = bytes.cursor(at: offset + index * segmentBytes)
        let (type, flags, place) = (cursor.u32(), cursor.u32(), cursor.u64())
        let (address, _, fileSize) = (cursor.u64(), cursor.u64(), cursor.u64())
        let (memorySize, alignment) = (cursor.u64(), cursor.u64())
        return ElfImage.Segment(
          type: type,
          flags: flags,
          offset: place,
          address: address,
          fileSize: fileSize,
          memorySize: memorySize,
          alignment: alignment
        )
      }
  }

  /// The descriptor of the note NT_GNU_BUILD_ID, in a segment of notes or, in files without segments, in a section.
  static func buildID(_ bytes: Bytes, _ segments: [ElfImage.Segment], _ sections: [ElfImage.Section]) -> [UInt8] {
    for segment in segments where segment.type == noteSegment {
      guard let notes = bytes.part(segment.offset, segment.fileSize) else { continue }
      if let found = buildID(notes, alignment: segment.alignment == 8 ? 8 : 4) { return found }
    }
    for section in sections where section.type == noteSection {
      guard let notes = bytes.part(section.offset, section.size) else { continue }
      if let found = buildID(notes, alignment: 4) { return found }
    }
    return []
  }

  private static func buildID(_ notes: Bytes, alignment: Int) -> [UInt8]? {
    var position = 0
    func aligned(_ value: Int) -> Int { (value + alignment - 1) & ~(alignment - 1) }
    while position < notes.count {
      var cursor = notes.cursor(at: position)
      let (nameSize, size, type) = (Int(cursor.u32()), Int(cursor.u32()), cursor.u32())
      guard !cursor.hasFailed, nameSize <= notes.count, size <= notes.count else { return nil }
      let description = aligned(position + 12 + nameSize)
      let name = notes.text(at: position + 12)
      if type == 3, nameSize == 4, name?.equals("GNU") == true,
        let found = notes.part(UInt64(description), UInt64(size))
      {
        return found.array
      }
      position = aligned(description + size)
    }
    return nil
  }
}

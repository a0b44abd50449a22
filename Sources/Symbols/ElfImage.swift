import CulpritStallRecord
import Glibc

/// An ELF file (System V ABI, chapters 4 and 5). Each use checks the contents: damage reduces results, but does not
/// crash.
final class ElfImage {
  struct Section {
    var name: String
    var type: UInt32
    var flags: UInt64
    var address: UInt64
    var offset: UInt64
    var size: UInt64
    var link: UInt32
    var info: UInt32
    var alignment: UInt64
    var entrySize: UInt64

    var isCode: Bool { flags & ElfFormat.executableFlag != 0 && flags & ElfFormat.allocatedFlag != 0 }
    var end: UInt64? {
      let (end, overflow) = address.addingReportingOverflow(size)
      return overflow ? nil : end
    }
  }

  struct Segment {
    var type: UInt32
    var flags: UInt32
    var offset: UInt64
    var address: UInt64
    var fileSize: UInt64
    var memorySize: UInt64
    var alignment: UInt64
  }

  let bytes: Bytes
  let path: String
  let is64: Bool
  let type: UInt16
  let machine: UInt16
  let sections: [Section]
  let segments: [Segment]
  let buildID: [UInt8]
  let file: MappedFile?
  private let keeper: AnyObject
  private var contents: [Int: SectionContent] = [:]
  private var joinedContents: [String: SectionContent] = [:]

  /// - Throws: ``ElfError`` if the file cannot be opened or is not an ELF file.
  convenience init(path: String) throws(ElfError) {
    let file = try MappedFile(path: path)
    try self.init(bytes: file.bytes, path: path, file: file, keeper: file)
  }

  /// Reads an image in memory, kept valid by `keeper`.
  ///
  /// - Throws: ``ElfError`` if the image is not an ELF file.
  init(bytes: Bytes, path: String, file: MappedFile? = nil, keeper: AnyObject) throws(ElfError) {
    var cursor = bytes.ordered(isBigEndian: false).cursor()
    guard cursor.u32() == ElfFormat.magic else { throw ElfError(text: "\(path) is not an ELF file") }
    let (width, order) = (cursor.u8(), cursor.u8())
    guard width == 1 || width == 2 else {
      throw ElfError(text: "\(path) is an ELF file of a class that is not known (\(width))")
    }
    guard order == 1 || order == 2 else {
      throw ElfError(text: "\(path) is an ELF file in a byte order that is not known (\(order))")
    }
    let bytes = bytes.ordered(isBigEndian: order == 2)
    guard let header = ElfFormat.Header(bytes, is64: width == 2) else {
      throw ElfError(text: "\(path) ends inside its ELF header")
    }
    self.bytes = bytes
    is64 = header.is64
    self.path = path
    self.file = file
    self.keeper = keeper
    type = header.type
    machine = header.machine
    let raw = ElfFormat.sections(bytes, header)
    segments = ElfFormat.segments(bytes, header, raw.first)
    sections = ElfFormat.named(raw, bytes, header)
    buildID = ElfFormat.buildID(bytes, segments, sections)
  }

  func index(of name: String) -> Int? { sections.firstIndex { Self.hasContent($0, name) } }

  private static func hasContent(_ section: Section, _ name: String) -> Bool {
    section.name == name && section.type != ElfFormat.noBits && section.type != 0
  }

  /// Returns `nil` if the file lacks the bytes.
  func raw(_ section: Section) -> Bytes? {
    section.type == ElfFormat.noBits ? nil : bytes.part(section.offset, section.size)
  }

  /// Returns the content of the section `name`, inflated on demand. Joins sections of equal name in split units:
  /// compilers write one for each type, and linkers do not process these files.
  ///
  /// - Throws: ``ElfError`` if the section is damaged or has an unsupported compression.
  func content(of name: String) throws(ElfError) -> SectionContent? {
    if let index = index(of: name) { return try name.hasSuffix(".dwo") ? joined(name, index) : content(index) }
    // GNU's older format: ".z" starts the name, "ZLIB" and the size start the content.
    if name.hasPrefix(".debug"), let index = index(of: ".z" + name.dropFirst()) { return try content(index) }
    return nil
  }

  private func content(_ index: Int) throws(ElfError) -> SectionContent {
    if let known = contents[index] { return known }
    let section = sections[index]
    guard let raw = raw(section) else {
      throw ElfError(text: "the section \(section.name) of \(path) is not in the file")
    }
    let content: SectionContent
    if section.flags & ElfFormat.compressedFlag != 0 {
      content = try Compression.content(of: raw, is64: is64, section.name, file)
    } else if section.name.hasPrefix(".zdebug") {
      content = try Compression.oldContent(of: raw, section.name, file)
    } else {
      content = SectionContent(raw)
    }
    contents[index] = content
    return content
  }

  /// Returns the joined contents of all sections `name`. The first one has the index `first` in ``sections``.
  private func joined(_ name: String, _ first: Int) throws(ElfError) -> SectionContent {
    let all = sections.indices.filter { Self.hasContent(sections[$0], name) && sections[$0].size > 0 }
    guard all.count > 1 else { return try content(first) }
    if let known = joinedContents[name] { return known }
    // Sections of a malicious file can overlap.
    guard all.reduce(0, { $0 + Double(sections[$1].size) }) <= Double(bytes.count) else {
      throw ElfError(text: "the sections \(name) of \(path) are larger than the file")
    }
    var parts: [SectionContent] = []
    for index in all {
      let part = try content(index)
      part.requireAll()
      parts.append(part)
    }
    let count = parts.reduce(0) { $0 + $1.bytes.count }
    let content = try SectionContent(size: count, isBigEndian: bytes.isBigEndian) { region throws(ElfError) in
      var place = region
      for part in parts {
        // SAFETY: the region has room for the bytes of all parts, because its size is their sum.
        place.copyMemory(from: part.bytes.base, byteCount: part.bytes.count)
        place += part.bytes.count
      }
    }
    joinedContents[name] = content
    for index in all { contents[index] = nil }
    return content
  }

  var inflatedBytes: Int {
    contents.values.reduce(0) { $0 + $1.inflatedBytes } + joinedContents.values.reduce(0) { $0 + $1.inflatedBytes }
  }

  func fileAddress(ofOffset offset: UInt64) -> FileAddress? {
    for segment in segments where segment.type == ElfFormat.loadSegment {
      if offset >= segment.offset, offset - segment.offset < segment.fileSize {
        return FileAddress(offset - segment.offset &+ segment.address)
      }
    }
    return nil
  }
}

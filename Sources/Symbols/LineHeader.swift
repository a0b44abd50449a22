/// The header of a line table: its files, and the encoding of its program (DWARF 5, 6.2.4).
struct LineHeader {
  private struct File {
    var name: TextReference
    var directory: UInt64
  }

  /// Maximum number of entries. A corrupt table can claim any number of empty entries.
  private static let entriesMax: UInt64 = 1 << 20

  /// The offset of the program in the section, and one past its end.
  let program: Int
  let end: Int
  let minimumInstruction: UInt8
  let lineBase: Int8
  let lineRange: UInt8
  let opcodeBase: UInt8
  private let version: UInt16
  private let argumentCounts: [UInt8]
  private var directories: [TextReference] = []
  private var files: [File] = []
  private let compilationDirectory: TextReference?

  init?(_ file: DwarfFile, at offset: Int, directory: TextReference?, addressBytes: UInt8) {
    compilationDirectory = directory
    file.line.require(offset &+ 16)
    var cursor = file.line.bytes.cursor(at: offset)
    var length = UInt64(cursor.u32())
    let isWide = length == 0xffff_ffff
    if isWide { length = cursor.u64() }
    guard let bytes = Int(exactly: length), !cursor.hasFailed, bytes <= cursor.remaining else { return nil }
    let section = file.line.bytes
    end = section.count - cursor.remaining + bytes
    file.line.require(end)
    version = cursor.u16()
    guard (2...5).contains(version) else { return nil }
    var encoding = UnitEncoding(version: version, addressBytes: addressBytes, isWide: isWide)
    if version >= 5 {
      encoding.addressBytes = cursor.u8()
      _ = cursor.u8()
    }
    guard let headerBytes = Int(exactly: cursor.offset(isWide: isWide)), headerBytes <= cursor.remaining else {
      return nil
    }
    program = section.count - cursor.remaining + headerBytes
    minimumInstruction = cursor.u8()
    if version >= 4 { _ = cursor.u8() }
    _ = cursor.u8()
    lineBase = cursor.i8()
    lineRange = cursor.u8()
    opcodeBase = cursor.u8()
    guard !cursor.hasFailed, lineRange > 0, opcodeBase > 0, program <= end else { return nil }
    argumentCounts = (0..<max(0, Int(opcodeBase) - 1)).map { _ in cursor.u8() }
    var names = section.cursor(at: section.count - cursor.remaining, end: program)
    if version >= 5 {
      directories = Self.entries(&names, file, encoding).map(\.name)
      files = Self.entries(&names, file, encoding)
    } else {
      while let name = names.text(), name.count > 0 { directories.append(name) }
      while let name = names.text(), name.count > 0 {
        files.append(File(name: name, directory: names.uleb()))
        _ = names.uleb()
        _ = names.uleb()
      }
    }
  }

  /// Returns the number of operands of an unknown opcode.
  func arguments(of opcode: UInt8) -> UInt8 {
    let place = Int(opcode) - 1
    return argumentCounts.indices.contains(place) ? argumentCounts[place] : 0
  }

  var fileNumbersEnd: Int { version >= 5 ? files.count : files.count + 1 }

  var byteCount: Int { directories.capacity * 16 + files.capacity * 24 }

  func path(_ number: UInt32) -> String? {
    let place = version >= 5 ? Int(number) : Int(number) - 1
    guard files.indices.contains(place) else { return nil }
    let file = files[place]
    let name = file.name.string
    if name.hasPrefix("/") { return name }
    let directory = Int(exactly: file.directory) ?? .max
    let parent: String
    if version >= 5 {
      parent = directory > 0 && directories.indices.contains(directory) ? directories[directory].string : ""
      if directory == 0, compilationDirectory == nil, let first = directories.first {
        return Self.joined(first.string, name)
      }
    } else {
      parent = directory > 0 && directories.indices.contains(directory - 1) ? directories[directory - 1].string : ""
    }
    let relative = Self.joined(parent, name)
    return relative.hasPrefix("/") ? relative : Self.joined(compilationDirectory?.string ?? "", relative)
  }

  private static func joined(_ parent: String, _ name: String) -> String {
    parent.isEmpty ? name : parent.hasSuffix("/") ? parent + name : parent + "/" + name
  }

  /// Reads a list of directories or files in DWARF 5's format. The format of the entries comes first.
  private static func entries(_ cursor: inout ByteCursor, _ file: DwarfFile, _ encoding: UnitEncoding) -> [File] {
    let formats = (0..<cursor.u8()).map { _ in (content: cursor.uleb(), form: UInt16(exactly: cursor.uleb()) ?? 0) }
    let count = cursor.uleb()
    guard !cursor.hasFailed, !formats.isEmpty, count <= entriesMax else { return [] }
    var entries: [File] = []
    let base = file.line.bytes.base
    for _ in 0..<count {
      var name: TextReference?
      var directory: UInt64 = 0
      for format in formats {
        let value = AttributeValue(format.form, &cursor, encoding, base: base, implicit: 0)
        switch format.content {
        case 1: name = text(value, file)
        case 2: directory = value.number
        default: break
        }
      }
      if cursor.hasFailed { break }
      entries.append(File(name: name ?? TextReference(base: base, count: 0), directory: directory))
    }
    return entries
  }

  private static func text(_ value: AttributeValue, _ file: DwarfFile) -> TextReference? {
    let section: SectionContent
    switch value.form {
    case Form.string: section = file.line
    case Form.lineStringPointer: section = file.lineText
    case Form.stringPointer: section = file.text
    case Form.stringPointerSupplementary, Form.gnuStringAlternate: section = file.alternate?.text ?? .empty
    default: return nil
    }
    if value.form != Form.string { section.requireAll() }
    return Int(exactly: value.number).flatMap { section.bytes.text(at: $0) }
  }
}

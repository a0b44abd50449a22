import Foundation

@testable import CulpritSymbols

struct ByteWriter {
  private(set) var bytes: [UInt8] = []
  var isBigEndian = false

  var count: Int { bytes.count }

  mutating func u8(_ value: some BinaryInteger) { bytes.append(UInt8(truncatingIfNeeded: value)) }

  mutating func number(_ value: UInt64, _ width: Int) {
    let order = isBigEndian ? Array((0..<width).reversed()) : Array(0..<width)
    for place in order { u8(value >> UInt64(8 * place)) }
  }

  mutating func append(_ more: some Sequence<UInt8>) { bytes += more }

  mutating func text(_ text: String) { bytes += Array(text.utf8) + [0] }

  /// LEB128 (DWARF 5, 7.6), with `padding` redundant bytes.
  mutating func uleb(_ value: UInt64, padding: Int = 0) {
    var groups: [UInt8] = []
    var rest = value
    repeat {
      groups.append(UInt8(rest % 128))
      rest /= 128
    } while rest > 0
    groups += [UInt8](repeating: 0, count: padding)
    bytes += groups.dropLast().map { $0 + 128 } + groups.suffix(1)
  }

  mutating func sleb(_ value: Int64, padding: Int = 0) {
    // The fewest groups of seven bits that hold the value and its sign.
    var width = 1
    while width < 10, value < -(1 << Int64(7 * width - 1)) || value >= 1 << Int64(7 * width - 1) { width += 1 }
    width += padding
    for place in 0..<width {
      let group = UInt8(truncatingIfNeeded: (value >> Int64(min(7 * place, 63))) & 0x7f)
      u8(place == width - 1 ? group : group | 0x80)
    }
  }

  mutating func put(_ value: UInt64, _ width: Int, at place: Int) {
    var other = ByteWriter(isBigEndian: isBigEndian)
    other.number(value, width)
    bytes.replaceSubrange(place..<place + width, with: other.bytes)
  }

  init(isBigEndian: Bool = false) { self.isBigEndian = isBigEndian }

  static func made(_ write: (inout ByteWriter) -> Void) -> [UInt8] {
    var writer = ByteWriter()
    write(&writer)
    return writer.bytes
  }
}

/// Memory of exactly the size of the bytes.
final class MadeUpBytes {
  let bytes: Bytes
  private let region: UnsafeMutableRawBufferPointer

  init(_ content: [UInt8], isBigEndian: Bool = false) {
    region = .allocate(byteCount: max(1, content.count), alignment: 16)
    region.copyBytes(from: content)
    bytes = Bytes(
      base: UnsafeRawPointer(region.baseAddress.unsafelyUnwrapped),
      count: content.count,
      isBigEndian: isBigEndian
    )
  }

  deinit { region.deallocate() }
}

struct MadeUpSection {
  var name: String
  var type: UInt32 = 1
  var flags: UInt64 = 0
  var address: UInt64 = 0
  /// The size in the header, if it differs from the content's size.
  var size: UInt64?
  var link: UInt32 = 0
  var entrySize: UInt64 = 0
  var content: [UInt8] = []

  static func code(at address: UInt64, size: UInt64) -> MadeUpSection {
    MadeUpSection(name: ".text", type: 8, flags: 6, address: address, size: size)
  }
}

/// An x86-64 file with `sections`, numbered from 1.
func madeUpFile(_ sections: [MadeUpSection]) -> [UInt8] {
  var names = ByteWriter()
  var content = ByteWriter()
  var headers = ByteWriter()
  names.u8(0)
  headers.append([UInt8](repeating: 0, count: 64))
  for section in sections + [MadeUpSection(name: ".shstrtab", type: 3)] {
    let name = names.count
    names.text(section.name)
    let bytes = section.name == ".shstrtab" ? names.bytes : section.content
    headers.number(UInt64(name), 4)
    headers.number(UInt64(section.type), 4)
    for value in [section.flags, section.address, UInt64(64 + content.count), section.size ?? UInt64(bytes.count)] {
      headers.number(value, 8)
    }
    headers.number(UInt64(section.link), 4)
    headers.number(0, 4)
    headers.number(1, 8)
    headers.number(section.entrySize, 8)
    content.append(bytes)
  }
  return ByteWriter.made { file in
    file.append([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1] + [UInt8](repeating: 0, count: 9))
    file.number(3, 2)
    file.number(62, 2)
    file.number(1, 4)
    file.number(0, 8)
    file.number(0, 8)
    file.number(UInt64(64 + content.count), 8)
    file.number(0, 4)
    for value in [64, 56, 0, 64, UInt64(sections.count + 2), UInt64(sections.count + 1)] { file.number(value, 2) }
    file.append(content.bytes + headers.bytes)
  }
}

func madeUpImage(_ sections: [MadeUpSection]) throws -> ElfImage {
  let memory = MadeUpBytes(madeUpFile(sections))
  return try ElfImage(bytes: memory.bytes, path: "made up", keeper: memory)
}

struct MadeUpSegment {
  var type: UInt32 = 1
  var flags: UInt32
  var address: UInt64
  var size: UInt64
  var content: [UInt8] = []
}

/// An x86-64 image with `segments` and no sections.
func madeUpImage(segments: [MadeUpSegment]) throws -> ElfImage {
  var content = ByteWriter()
  let file = ByteWriter.made { file in
    file.append([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1] + [UInt8](repeating: 0, count: 9))
    for (value, width) in [(3, 2), (62, 2), (1, 4), (0, 8), (64, 8), (0, 8), (0, 4)] as [(UInt64, Int)] {
      file.number(value, width)
    }
    for value in [64, 56, UInt64(segments.count), 64, 0, 0] { file.number(value, 2) }
    for segment in segments {
      file.number(UInt64(segment.type), 4)
      file.number(UInt64(segment.flags), 4)
      let offset = UInt64(64 + 56 * segments.count + content.count)
      for value in [offset, segment.address, segment.address, UInt64(segment.content.count), segment.size, 1] {
        file.number(value, 8)
      }
      content.append(segment.content)
    }
    file.append(content.bytes)
  }
  let memory = MadeUpBytes(file)
  return try ElfImage(bytes: memory.bytes, path: "made up", keeper: memory)
}

/// Encodes abbreviations: code, tag, presence of children, and pairs of attribute and form.
func abbreviations(_ list: [(code: UInt64, tag: UInt16, hasChildren: Bool, [(UInt16, UInt16)])]) -> [UInt8] {
  ByteWriter.made { writer in
    for (code, tag, hasChildren, attributes) in list {
      writer.uleb(code)
      writer.uleb(UInt64(tag))
      writer.u8(hasChildren ? 1 : 0)
      for (name, form) in attributes {
        writer.uleb(UInt64(name))
        writer.uleb(UInt64(form))
      }
      writer.append([0, 0])
    }
    writer.u8(0)
  }
}

/// A version 4 unit around `content`, whose first byte is at 11.
func unit(_ content: [UInt8]) -> [UInt8] {
  ByteWriter.made { writer in
    writer.number(UInt64(content.count + 7), 4)
    writer.number(4, 2)
    writer.number(0, 4)
    writer.u8(8)
    writer.append(content)
  }
}

func madeUpDebugInformation(_ sections: [String: [UInt8]]) throws -> DwarfFile? {
  var all = [".debug_info": [0], ".debug_abbrev": [0]] as [String: [UInt8]]
  for (name, content) in sections { all[name] = content }
  return try DwarfFile(madeUpImage(all.map { MadeUpSection(name: $0.key, content: $0.value) }))
}

/// The lines of a file in `Generated`, split into fields.
func generatedLines(_ name: String, separator: Character = " ") throws -> [[Substring]] {
  let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "Generated/\(name)")
  return try String(contentsOf: file, encoding: .utf8).split(separator: "\n").map { $0.split(separator: separator) }
}

func bytes(_ digits: Substring) -> [UInt8] {
  let values = digits.utf8.map { $0 - ($0 < 0x3a ? 0x30 : 0x57) }
  return stride(from: 0, to: values.count, by: 2).map { values[$0] << 4 | values[$0 + 1] }
}

import CulpritStallRecord

@testable import CulpritSymbols

/// What a fuzzer gave, kept where the reader can look at it.
final class FuzzInput {
  private let region: UnsafeMutableRawPointer
  let bytes: Bytes

  convenience init(_ data: UnsafePointer<UInt8>, _ count: Int) {
    self.init(Array(UnsafeBufferPointer(start: data, count: count)))
  }

  init(_ array: [UInt8]) {
    // Of exactly this size, so that AddressSanitizer sees a step past the end.
    let region = UnsafeMutableRawPointer.allocate(byteCount: max(array.count, 1), alignment: 1)
    array.withUnsafeBytes { UnsafeMutableRawBufferPointer(start: region, count: $0.count).copyMemory(from: $0) }
    self.region = region
    bytes = Bytes(base: UnsafeRawPointer(region), count: array.count)
  }

  deinit { region.deallocate() }
}

/// An ELF file around sections of debug information.
enum FuzzedImage {
  static let sectionNames = [
    ".debug_info", ".debug_abbrev", ".debug_line", ".debug_str", ".debug_line_str", ".debug_ranges", ".debug_rnglists",
    ".debug_aranges", ".debug_addr", ".debug_str_offsets",
  ]

  /// The file with `contents`, the sections in the order of ``sectionNames``.
  static func elf(_ contents: [[UInt8]]) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 64)
    var names: [UInt8] = [0]
    var headers = [UInt8](repeating: 0, count: 64)
    func put<Number: FixedWidthInteger>(_ number: Number, _ bytes: inout [UInt8]) {
      withUnsafeBytes(of: number.littleEndian) { bytes.append(contentsOf: $0) }
    }
    func add(_ name: String, _ content: [UInt8], type: UInt32, flags: UInt64, address: UInt64, size: UInt64? = nil) {
      put(UInt32(names.count), &headers)
      put(type, &headers)
      put(flags, &headers)
      put(address, &headers)
      put(UInt64(bytes.count), &headers)
      put(size ?? UInt64(content.count), &headers)
      for _ in 0..<3 { put(UInt64(0), &headers) }
      names += Array(name.utf8) + [0]
      bytes += content
    }
    add(".text", [], type: 8, flags: 6, address: 0x1000, size: 0x10_0000)
    for (name, content) in zip(sectionNames, contents) { add(name, content, type: 1, flags: 0, address: 0) }
    add(".shstrtab", names + Array(".shstrtab".utf8) + [0], type: 3, flags: 0, address: 0)
    let table = bytes.count
    bytes += headers
    var start: [UInt8] = [0x7f, 0x45, 0x4c, 0x46, 2, 1, 1] + [UInt8](repeating: 0, count: 9)
    put(UInt16(3), &start)
    put(UInt16(62), &start)
    put(UInt32(1), &start)
    put(UInt64(0), &start)
    put(UInt64(0), &start)
    put(UInt64(table), &start)
    put(UInt32(0), &start)
    for number in [64, 56, 0, 64, headers.count / 64, headers.count / 64 - 1] { put(UInt16(number), &start) }
    bytes.replaceSubrange(0..<64, with: start)
    return bytes
  }
}

/// Asks for the first addresses that `image` says something about, and for some that it may not know.
func describeEverything(in image: ElfImage) {
  let file = SymbolFile(image, search: DebugSearch())
  var addresses: [UInt64] = [0, 1, 0x1000, 0x1010, 0x1135, 0x1180, 0x2000, .max]
  addresses += image.sections.filter(\.isCode).flatMap { [$0.address, $0.address &+ $0.size / 2] }.prefix(32)
  addresses += image.segments.map(\.address).prefix(16)
  if let dwarf = try? DwarfFile(image) {
    for header in dwarf.allHeaders.prefix(16) {
      addresses += dwarf.unit(header).codeRanges.prefix(8).flatMap { [$0.start, ($0.start &+ $0.end) / 2] }
    }
  }
  for address in addresses { _ = file.frames(at: FileAddress(address), module: "fuzzed") }
}

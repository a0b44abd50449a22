import CulpritStallRecord

@testable import CulpritSymbols

/// A copy of a fuzzer's input that lives as long as the reader needs it.
final class FuzzInput {
  private let region: UnsafeMutableRawPointer
  let bytes: Bytes

  convenience init(_ data: UnsafePointer<UInt8>, _ count: Int) {
    self.init(Array(UnsafeBufferPointer(start: data, count: count)))
  }

  init(_ array: [UInt8]) {
    // Exactly as large as the input, so that AddressSanitizer detects reads past the end.
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
    ".debug_aranges", ".debug_addr", ".debug_str_offsets", ".debug_types",
  ]

  /// Returns an ELF file whose sections have `contents`, in the order of ``sectionNames``.
  static func elf(_ contents: [[UInt8]], is64: Bool, isBigEndian: Bool) -> [UInt8] {
    let (headerBytes, entryBytes) = is64 ? (64, 64) : (52, 40)
    var bytes = [UInt8](repeating: 0, count: headerBytes)
    var names: [UInt8] = [0]
    var headers = [UInt8](repeating: 0, count: entryBytes)
    func put<Number: FixedWidthInteger>(_ number: Number, _ bytes: inout [UInt8]) {
      withUnsafeBytes(of: isBigEndian ? number.bigEndian : number.littleEndian) { bytes.append(contentsOf: $0) }
    }
    func putWord(_ number: Int, _ bytes: inout [UInt8]) {
      if is64 { put(UInt64(number), &bytes) } else { put(UInt32(number), &bytes) }
    }
    func add(_ name: String, _ content: [UInt8], type: UInt32, flags: Int, address: Int, size: Int? = nil) {
      put(UInt32(names.count), &headers)
      put(type, &headers)
      for number in [flags, address, bytes.count, size ?? content.count] { putWord(number, &headers) }
      for _ in 0..<2 { put(UInt32(0), &headers) }
      for _ in 0..<2 { putWord(0, &headers) }
      names += Array(name.utf8) + [0]
      bytes += content
    }
    add(".text", [], type: 8, flags: 6, address: 0x1000, size: 0x10_0000)
    for (name, content) in zip(sectionNames, contents) { add(name, content, type: 1, flags: 0, address: 0) }
    add(".shstrtab", names + Array(".shstrtab".utf8) + [0], type: 3, flags: 0, address: 0)
    let table = bytes.count
    bytes += headers
    var start: [UInt8] = [0x7f, 0x45, 0x4c, 0x46, is64 ? 2 : 1, isBigEndian ? 2 : 1, 1]
    start += [UInt8](repeating: 0, count: 9)
    put(UInt16(3), &start)
    put(UInt16(62), &start)
    put(UInt32(1), &start)
    for number in [0, 0, table] { putWord(number, &start) }
    put(UInt32(0), &start)
    for number in [
      headerBytes, is64 ? 56 : 32, 0, entryBytes, headers.count / entryBytes, headers.count / entryBytes - 1,
    ] {
      put(UInt16(number), &start)
    }
    bytes.replaceSubrange(0..<headerBytes, with: start)
    return bytes
  }
}

/// Symbolizes addresses in the sections, segments and debug information of `image`, and some other addresses.
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

import CulpritStallRecord

@testable import CulpritSymbols

/// Reads any bytes as sections of debug information. The ELF file around them is valid, so mutations reach the DWARF
/// reader.
///
/// The input begins with a byte of flags: 1 for 64 bits, 2 for big-endian. The lengths of the sections follow, two
/// bytes each, then the sections.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzDwarf(_ data: UnsafePointer<UInt8>, _ count: Int) -> Int32 {
  let names = FuzzedImage.sectionNames
  guard count > names.count * 2 + 1 else { return 0 }
  var contents: [[UInt8]] = []
  var position = names.count * 2 + 1
  for place in names.indices {
    let length = min(Int(data[place * 2 + 1]) | Int(data[place * 2 + 2]) << 8, count - position)
    contents.append((0..<length).map { data[position + $0] })
    position += length
  }
  let keeper = FuzzInput(FuzzedImage.elf(contents, is64: data[0] & 1 != 0, isBigEndian: data[0] & 2 != 0))
  guard let image = try? ElfImage(bytes: keeper.bytes, path: "fuzzed", keeper: keeper) else { return 0 }
  describeEverything(in: image)
  return 0
}

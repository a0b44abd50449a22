import CulpritStallRecord

@testable import CulpritSymbols

/// Sections of debug information: what a fuzzer changes in them does not first have to survive the ELF file around them.
///
/// The input begins with the lengths of the sections, two bytes each; their content follows.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzDwarf(_ data: UnsafePointer<UInt8>, _ count: Int) -> Int32 {
  let names = FuzzedImage.sectionNames
  guard count > names.count * 2 else { return 0 }
  var contents: [[UInt8]] = []
  var position = names.count * 2
  for place in names.indices {
    let length = min(Int(data[place * 2]) | Int(data[place * 2 + 1]) << 8, count - position)
    contents.append((0..<length).map { data[position + $0] })
    position += length
  }
  let keeper = FuzzInput(FuzzedImage.elf(contents))
  guard let image = try? ElfImage(bytes: keeper.bytes, path: "fuzzed", keeper: keeper) else { return 0 }
  describeEverything(in: image)
  return 0
}

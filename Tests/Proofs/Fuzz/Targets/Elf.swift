import CulpritStallRecord

@testable import CulpritSymbols

/// Reads arbitrary bytes as an ELF file, with the symbols, debug information and stubs of all addresses.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzElf(_ data: UnsafePointer<UInt8>, _ count: Int) -> Int32 {
  let keeper = FuzzInput(data, count)
  guard let image = try? ElfImage(bytes: keeper.bytes, path: "fuzzed", keeper: keeper) else { return 0 }
  describeEverything(in: image)
  return 0
}

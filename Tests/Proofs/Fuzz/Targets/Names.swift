import CulpritStallRecord

@testable import CulpritSymbols

/// Reads any bytes as a name from a symbol table, and as a demangled name.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzNames(_ data: UnsafePointer<UInt8>, _ count: Int) -> Int32 {
  let text = String(decoding: UnsafeBufferPointer(start: data, count: count), as: UTF8.self)
  _ = demangle(text)
  _ = SwiftName(demangled: text)
  _ = CxxName(demangled: text)
  _ = FunctionName.fitted(text)
  return 0
}

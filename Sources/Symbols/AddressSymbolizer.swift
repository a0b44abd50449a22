import CulpritStallRecord

/// The symbol and calls of an address. Names are references into the file, valid during the symbolizer's lifetime.
package struct FoundAddress {
  package var address: FileAddress
  package var symbol: SymbolMatch?
  package var calls: [SourceCall]
  package var stub: String?
  package var missing: MissingNameReason?
}

/// Symbolizes link-time addresses of one file, without a process.
///
/// Not safe for concurrent use.
package final class AddressSymbolizer {
  private let file: SymbolFile

  /// - Throws: ``SymbolFileError`` if the file cannot be read, is not an ELF file, or is an object file or a core dump.
  package init(path: String, search: DebugSearch = DebugSearch()) throws(SymbolFileError) {
    let image: ElfImage
    do { image = try ElfImage(path: path) } catch { throw SymbolFileError(description: error.text) }
    switch image.type {
    case ElfFormat.objectFile:
      throw SymbolFileError(
        description: "cannot name addresses of \(path): it is an object file (.o, .ko), and code has no address before"
          + " it is linked or loaded; use the linked file"
      )
    case ElfFormat.coreDump:
      throw SymbolFileError(
        description: "cannot name addresses of \(path): it is a core dump, which has no symbols; use the program or"
          + " library that the address is in"
      )
    default: file = SymbolFile(image, search: search)
    }
  }

  package var buildID: [UInt8] { file.image.buildID }

  package var addressBytes: Int { file.image.is64 ? 8 : 4 }

  /// Whether all files are complete. A truncated file must not be read any more.
  package var isIntact: Bool { file.isIntact() }

  /// The reasons why existing debug information was not used, as sentences without a final period.
  package var problems: [String] { file.problems }

  /// Finds the symbol and calls of `address`. Does not copy names, for printing many addresses.
  package func find(_ address: FileAddress) -> FoundAddress {
    let calls = file.calls(at: address)
    var found = FoundAddress(
      address: address,
      symbol: file.symbol(at: address, preferring: calls.last?.name),
      calls: calls
    )
    guard found.symbol == nil, calls.last?.name == nil else { return found }
    found.stub = file.pltStub(at: address)
    if found.stub == nil { found.missing = file.hasSymbols ? .noSymbolHere : .noSymbols }
    return found
  }
}

package struct SymbolFileError: Error, Hashable, Sendable, CustomStringConvertible {
  package var description: String
}

import CulpritStallRecord

/// A call in which the code at an address is.
package struct AddressCall: Hashable, Sendable {
  /// The function's name as linkers know it, else as it is written, `nil` when debug information has none.
  package var rawName: String?
  /// Whether ``rawName`` is one for linkers.
  package var isLinkageName: Bool
  /// Whether the function was inlined into the next one.
  package var isInlined: Bool
  /// The path of the source file as the compiler recorded it, `nil` when it is not known.
  package var file: String?
  /// The line, from 1; 0 for code that comes from no line.
  package var line: Int
  /// The column, from 1; 0 when it is not known.
  package var column: Int
  /// Which of several blocks on the line (DWARF 5, 6.2.2), 0 for the first.
  package var discriminator: Int
}

/// What is known of an address in a file.
package struct AddressDescription: Hashable, Sendable {
  /// A symbol.
  package struct Symbol: Hashable, Sendable {
    /// The name in the symbol table.
    package var name: String
    /// The first address.
    package var start: FileAddress
    /// One past the last address.
    package var end: FileAddress
    /// The name of the source file that a local symbol is from, where the table says it.
    package var file: String?
  }

  /// The address.
  package var address: FileAddress
  /// The symbol that covers the address.
  package var symbol: Symbol?
  /// The calls that the code is in, the innermost first, from debug information; none without it.
  package var calls: [AddressCall]
  /// The PLT stub that the address is in, `poll@plt`, or `PLT stub` without a known target.
  package var stub: String?
  /// Why there is no name; `nil` when there is one.
  package var missing: MissingNameReason?

  /// The raw name of the function at the address that has code of its own: from the symbol table, else from debug
  /// information, else that of a stub.
  package var functionName: String? { symbol?.name ?? calls.last?.rawName ?? stub }
}

/// Symbol and calls of an address. Names are references into the file, valid only as long as the symbolizer.
package struct FoundAddress {
  /// The address.
  package var address: FileAddress
  /// The symbol that covers the address.
  package var symbol: SymbolMatch?
  /// The calls that the code is in, the innermost first, from debug information; none without it.
  package var calls: [SourceCall]
  /// The PLT stub that the address is in.
  package var stub: String?
  /// Why there is no name; `nil` when there is one.
  package var missing: MissingNameReason?
}

/// Describes addresses of one file, as the file states them.
///
/// Not safe for use from several threads at once.
package final class AddressSymbolizer {
  private let file: SymbolFile

  /// Opens the file at `path`.
  ///
  /// - Throws: ``SymbolFileError`` when it cannot be read, is no ELF file, or is an object file or a core dump.
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

  /// The linker's build-id, empty when there is none.
  package var buildID: [UInt8] { file.image.buildID }

  /// How many bytes an address of the file has: 4 or 8.
  package var addressBytes: Int { file.image.is64 ? 8 : 4 }

  /// Whether all files can still be read. One that was cut short must not be looked into any more.
  package var isIntact: Bool { file.isIntact() }

  /// Why debug information that is there was not used, in sentences without their end.
  package var problems: [String] { file.problems }

  /// Finds symbol and calls of `address` without copying names, for printing many addresses.
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

  /// What is known of `address`.
  package func describe(_ address: FileAddress) -> AddressDescription {
    let found = find(address)
    let symbol = found.symbol.map {
      AddressDescription.Symbol(
        name: $0.name.string,
        start: FileAddress($0.range.start),
        end: FileAddress($0.range.end),
        file: $0.file?.string
      )
    }
    return AddressDescription(
      address: address,
      symbol: symbol,
      calls: found.calls.map(AddressCall.init),
      stub: found.stub,
      missing: found.missing
    )
  }
}

/// Why a file cannot be used for names.
package struct SymbolFileError: Error, Hashable, Sendable, CustomStringConvertible {
  /// A sentence without its end.
  package var description: String
}

extension AddressCall {
  fileprivate init(_ call: SourceCall) {
    rawName = call.name?.string
    isLinkageName = call.isLinkageName
    isInlined = call.isInlined
    file = call.file
    line = Int(call.line)
    column = Int(call.column)
    discriminator = Int(call.discriminator)
  }
}

/// What a raw name means in its language: a Swift, C++ or Rust name with everything that the demangler knows about it, or
/// `rawName` itself.
package func demangledName(_ rawName: String) -> String { demangledInFull(rawName) }

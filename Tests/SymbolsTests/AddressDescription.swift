import CulpritStallRecord

@testable import CulpritSymbols

/// A ``FoundAddress`` with copied names, which outlives its symbolizer.
struct AddressDescription: Hashable, Sendable {
  struct Symbol: Hashable, Sendable {
    var name: String
    var start: FileAddress
    var end: FileAddress
    var file: String?
  }

  struct Call: Hashable, Sendable {
    var rawName: String?
    var isLinkageName: Bool
    /// Whether the function was inlined into the next function.
    var isInlined: Bool
    var file: String?
    var line: Int
    var column: Int
    var discriminator: Int
  }

  var address: FileAddress
  var symbol: Symbol?
  var calls: [Call]
  var stub: String?
  var missing: MissingNameReason?
}

extension AddressSymbolizer {
  func describe(_ address: FileAddress) -> AddressDescription {
    let found = find(address)
    return AddressDescription(
      address: address,
      symbol: found.symbol.map {
        AddressDescription.Symbol(
          name: $0.name.string,
          start: FileAddress($0.range.start),
          end: FileAddress($0.range.end),
          file: $0.file?.string
        )
      },
      calls: found.calls.map {
        AddressDescription.Call(
          rawName: $0.name?.string,
          isLinkageName: $0.isLinkageName,
          isInlined: $0.isInlined,
          file: $0.file,
          line: Int($0.line),
          column: Int($0.column),
          discriminator: Int($0.discriminator)
        )
      },
      stub: found.stub,
      missing: found.missing
    )
  }
}

/// A type of the service, in its module `Symbols`.
public struct SymbolsOfTheService {
  /// Creates an instance.
  public init() {}
}

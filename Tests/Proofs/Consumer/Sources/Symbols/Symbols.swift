/// A type of the service, in a module of this name.
public struct SymbolsOfTheService {
  /// Creates an instance.
  public init() {}
}

/// What a service has in a module of this name.
public struct SymbolsOfTheService {
  /// Something of it.
  public init() {}
}

public struct SymbolsOfTheService {
  public init() {}
}

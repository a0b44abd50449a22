public struct BlameOfTheService {
  public init() {}
}

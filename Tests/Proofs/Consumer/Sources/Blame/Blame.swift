/// What a service has in a module of this name.
public struct BlameOfTheService {
  /// Something of it.
  public init() {}
}

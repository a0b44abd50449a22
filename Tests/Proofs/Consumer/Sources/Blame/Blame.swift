/// A type of the service, in a module of this name.
public struct BlameOfTheService {
  /// Creates an instance.
  public init() {}
}

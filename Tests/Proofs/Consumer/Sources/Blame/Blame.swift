/// A type of the service, in its module `Blame`.
public struct BlameOfTheService {
  /// Creates an instance.
  public init() {}
}

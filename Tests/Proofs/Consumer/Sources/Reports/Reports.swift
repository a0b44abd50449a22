/// A type of the service, in its module `Reports`.
public struct ReportsOfTheService {
  /// Creates an instance.
  public init() {}
}

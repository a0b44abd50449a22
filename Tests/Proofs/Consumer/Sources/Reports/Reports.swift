/// A type of the service, in a module of this name.
public struct ReportsOfTheService {
  /// Creates an instance.
  public init() {}
}

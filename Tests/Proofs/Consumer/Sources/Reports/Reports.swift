/// What a service has in a module of this name.
public struct ReportsOfTheService {
  /// Something of it.
  public init() {}
}

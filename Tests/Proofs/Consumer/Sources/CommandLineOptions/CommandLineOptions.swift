/// What a service has in a module of this name.
public struct CommandLineOptionsOfTheService {
  /// Something of it.
  public init() {}
}

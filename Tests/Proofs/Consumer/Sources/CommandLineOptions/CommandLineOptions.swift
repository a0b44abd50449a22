/// A type of the service, in a module of this name.
public struct CommandLineOptionsOfTheService {
  /// Creates an instance.
  public init() {}
}

/// A type of the service, in its module `CommandLineOptions`.
public struct CommandLineOptionsOfTheService {
  /// Creates an instance.
  public init() {}
}

public struct CommandLineOptionsOfTheService {
  public init() {}
}

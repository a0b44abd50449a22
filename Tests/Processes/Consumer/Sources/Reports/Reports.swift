public struct ReportsOfTheService {
  public init() {}
}

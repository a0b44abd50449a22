import CulpritReports

extension Watchdog {
  /// The registration of a handler that is never called.
  public final class Registration: Sendable {
    let isRemoved = true

    /// Does nothing.
    public func remove() {}
  }

  /// Does nothing.
  @discardableResult
  public func onStall(_ handler: @escaping @Sendable (StallReport) -> Void) -> Registration { Registration() }

  /// Does nothing.
  @discardableResult
  public func onStallBegan(_ handler: @escaping @Sendable (StallEvent) -> Void) -> Registration { Registration() }

  /// Does nothing.
  @discardableResult
  public func onHang(_ handler: @escaping @Sendable (StallEvent) -> Void) -> Registration { Registration() }

  /// Does nothing.
  @discardableResult
  public func onLeakedActivity(_ handler: @escaping @Sendable (LeakedActivity) -> Void) -> Registration {
    Registration()
  }

  /// Does nothing.
  @discardableResult
  public func onTerminate(
    _ handler: @escaping @Sendable (TerminationRequest) -> TerminationRequest.Decision
  ) -> Registration { Registration() }

  /// Does nothing.
  public func onPreviousRun(_ handler: @escaping @Sendable (Watchdog.PreviousRun) -> Void) {}

  /// Does nothing.
  @discardableResult
  public func addContext(_ title: String, _ describe: @escaping @Sendable () -> String) -> Registration {
    Registration()
  }
}

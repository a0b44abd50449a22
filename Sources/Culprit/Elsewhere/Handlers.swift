import CulpritReports

extension Watchdog {
  /// The registration of a handler that is never called.
  public final class Registration: Sendable {
    /// Whether the registration has been removed.
    let isRemoved = true

    /// Does nothing.
    public func remove() {}
  }

  /// Does nothing: there are no stalls.
  @discardableResult
  public func onStall(_ handler: @escaping @Sendable (StallReport) -> Void) -> Registration { Registration() }

  /// Does nothing: there are no stalls.
  @discardableResult
  public func onStallBegan(_ handler: @escaping @Sendable (StallEvent) -> Void) -> Registration { Registration() }

  /// Does nothing: there are no hangs.
  @discardableResult
  public func onHang(_ handler: @escaping @Sendable (StallEvent) -> Void) -> Registration { Registration() }

  /// Does nothing: no activity counts as leaked.
  @discardableResult
  public func onLeakedActivity(_ handler: @escaping @Sendable (LeakedActivity) -> Void) -> Registration {
    Registration()
  }

  /// Does nothing: no process is terminated.
  @discardableResult
  public func onTerminate(
    _ handler: @escaping @Sendable (TerminationRequest) -> TerminationRequest.Decision
  ) -> Registration { Registration() }

  /// Does nothing: there are no records of earlier runs.
  public func onPreviousRun(_ handler: @escaping @Sendable (Watchdog.PreviousRun) -> Void) {}

  /// Does nothing: there are no reports.
  @discardableResult
  public func addContext(_ title: String, _ describe: @escaping @Sendable () -> String) -> Registration {
    Registration()
  }
}

import CulpritReports

extension Watchdog {
  /// Calls `handler` with a report after every stall.
  ///
  /// Calls are made on a thread of the watchdog, one at a time for each handler. A handler that blocks delays other
  /// handlers by 20 ms. While 64 reports wait for a handler, further ones are dropped and counted in
  /// ``Status/reportsDropped``. Without a handler, reports are printed to standard error.
  ///
  /// - Parameter handler: Called with the report.
  /// - Returns: A registration. ``Registration/remove()`` removes the handler.
  @discardableResult
  public func onStall(_ handler: @escaping @Sendable (StallReport) -> Void) -> Registration {
    register(activeEngine?.reporter.ended, handler)
  }

  /// Calls `handler` when a stall begins: a work item has passed its threshold and is still in progress. Threads and
  /// limits as for ``onStall(_:)``.
  @discardableResult
  public func onStallBegan(_ handler: @escaping @Sendable (StallEvent) -> Void) -> Registration {
    register(activeEngine?.reporter.begun, handler)
  }

  /// Calls `handler` when a stall becomes a hang (``Configuration/Sampling/hangThreshold``). Threads and limits as for
  /// ``onStall(_:)``.
  @discardableResult
  public func onHang(_ handler: @escaping @Sendable (StallEvent) -> Void) -> Registration {
    register(activeEngine?.reporter.hung, handler)
  }

  func register<Subject>(
    _ handlers: Handlers<Subject>?,
    _ handler: @escaping @Sendable (Subject) -> Void
  ) -> Registration {
    guard let handlers else { return Registration(nil) }
    let added = handlers.add(handler)
    return keep(Registration({ [weak handlers] in handlers?.remove(added) }, finish: { added.join(until: $0) }))
  }
}

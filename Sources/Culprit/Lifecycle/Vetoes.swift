extension Watchdog {
  /// Calls `handler` before the process is ended for being stuck (``Configuration/Lifecycle/terminateAfter``), on a
  /// thread of the watchdog's own. By then the record has been saved, and the reason has been written to standard
  /// error.
  ///
  /// The process ends unless a handler returns ``TerminationRequest/Decision/veto`` within two seconds. When the stuck
  /// thread holds the lock of the allocator, a handler that allocates cannot veto.
  ///
  /// - Parameter handler: Called with the request; decides whether the process ends.
  /// - Returns: The registration, whose ``Registration/remove()`` removes the handler.
  @discardableResult
  public func onTerminate(
    _ handler: @escaping @Sendable (TerminationRequest) -> TerminationRequest.Decision
  ) -> Registration {
    guard let policies = activeCore?.policies else { return Registration(nil) }
    let remove = policies.add(handler)
    return keep(Registration(remove))
  }
}

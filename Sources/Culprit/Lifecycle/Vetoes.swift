extension Watchdog {
  /// Calls `handler` on a thread of the watchdog before a stall terminates the process
  /// (``Configuration/Lifecycle/terminateAfter``). By then, the record is saved and the reason is printed to standard
  /// error.
  ///
  /// The process ends unless a handler returns ``TerminationRequest/Decision/veto`` within two seconds. A handler that
  /// allocates cannot veto if the stalled thread holds the allocator's lock.
  ///
  /// - Parameter handler: Decides whether the process ends.
  /// - Returns: A registration. ``Registration/remove()`` removes the handler.
  @discardableResult
  public func onTerminate(
    _ handler: @escaping @Sendable (TerminationRequest) -> TerminationRequest.Decision
  ) -> Registration {
    guard let lifecycle = activeEngine?.lifecycle else { return Registration(nil) }
    let remove = lifecycle.add(handler)
    return keep(Registration(remove))
  }
}

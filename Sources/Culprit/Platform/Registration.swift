extension Watchdog {
  /// A handler that can be removed. Releasing the registration does not remove the handler.
  public final class Registration: Sendable {
    private struct Removal {
      var body: (@Sendable () -> Void)?
    }

    private let removal: Mutex<Removal>
    private let finish: @Sendable (UInt64) -> Bool

    /// Creates a registration. `finish` waits for the last call until a time on the observer's clock, and returns
    /// whether the call has returned.
    init(_ removal: (@Sendable () -> Void)?, finish: @escaping @Sendable (UInt64) -> Bool = { _ in true }) {
      self.removal = Mutex(Removal(body: removal))
      self.finish = finish
    }

    /// Removes the handler and waits for its last call until `deadline`. Returns whether the call has returned.
    func end(until deadline: UInt64) -> Bool {
      remove()
      return finish(deadline)
    }

    var isRemoved: Bool { removal.withLock { $0.body == nil } }

    /// Removes the handler: no new call begins, and a running call continues. A second call has no effect.
    public func remove() {
      removal.exchange(Removal()).body?()
    }
  }
}

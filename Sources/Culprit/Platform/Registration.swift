import Synchronization

extension Watchdog {
  /// A handler that can be removed. Releasing the registration does not remove the handler.
  public final class Registration: Sendable {
    private let removal: Mutex<(@Sendable () -> Void)?>
    private let finish: @Sendable (UInt64) -> Bool

    /// - Parameters:
    ///   - removal: Removes the handler; `nil` if there is none.
    ///   - finish: Waits until the last call has returned, at most until a time on the observer's clock; returns whether it
    ///     has.
    init(_ removal: (@Sendable () -> Void)?, finish: @escaping @Sendable (UInt64) -> Bool = { _ in true }) {
      self.removal = Mutex(removal)
      self.finish = finish
    }

    /// Removes the handler and waits until it has returned, at most until `deadline`. Returns whether it has.
    func end(until deadline: UInt64) -> Bool {
      remove()
      return finish(deadline)
    }

    /// Whether the handler has been removed.
    var isRemoved: Bool { removal.withLock { $0 == nil } }

    /// Removes the handler: no new call begins, a running call continues. The second call does nothing.
    public func remove() {
      let removal = removal.withLock { removal in
        defer { removal = nil }
        return removal
      }
      removal?()
    }
  }
}

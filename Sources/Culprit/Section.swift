import CObserver
import StallRecord
import Synchronization

extension Watchdog {
  /// Runs `body`, which may take `budget`.
  ///
  /// When it takes longer, a stall of the section is reported; `body` is not interrupted. Sections may be nested and run
  /// on many threads at once. When no more sections can be watched (4,096 sources at a time), or the watchdog has been
  /// stopped, `body` runs all the same.
  ///
  /// - Parameters:
  ///   - name: What reports call the section.
  ///   - budget: What it may take; less than 10 ms counts as 10 ms.
  ///   - body: The work.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws.
  public func section<Result: ~Copyable, Failure: Error>(
    _ name: String,
    budget: Duration,
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let timer = timer(name, budget: budget)
    defer { timer.invalidate() }
    return try body()
  }

  /// Starts a timer on a critical section of the calling thread, which may take `budget`.
  ///
  /// - Parameters:
  ///   - name: What reports call the section.
  ///   - budget: What it may take; less than 10 ms counts as 10 ms.
  /// - Returns: The timer, to be invalidated when the section is over.
  public func timer(_ name: String, budget: Duration) -> SectionTimer {
    let budget = max(budget, Configuration.shortestTime)
    let limits = WatchLimits(threshold: budget, interval: budget)
    let source = WatchedSource(kind: .section, name: name)
    guard
      let lease = try? SlotRegistry.shared.lease(
        source,
        for: control(),
        threshold: budget,
        polled: false
      )
    else { return SectionTimer(watchdog: self, lease: nil) }
    SlotRegistry.shared.begin(lease, suspicion: limits.suspicion)
    return SectionTimer(watchdog: self, lease: lease)
  }
}

/// A timer on a critical section of the thread that created it.
///
/// It runs from its creation until ``invalidate()``, or until the last reference is gone. When the section's budget runs
/// out before that, a stall is reported, once.
public final class SectionTimer: Sendable {
  private let lease: SlotRegistry.Lease?
  private let isInvalidated = Atomic<Bool>(false)
  private let watchdog: Watchdog

  init(watchdog: Watchdog, lease: SlotRegistry.Lease?) {
    self.watchdog = watchdog
    self.lease = lease
  }

  deinit { invalidate() }

  /// Whether the section is watched at all: not when too many sources are, or the watchdog has been stopped.
  public var isWatched: Bool { lease != nil }

  /// Ends the section. May be called from any thread; does nothing the second time.
  public func invalidate() {
    guard let lease, !isInvalidated.exchange(true, ordering: .acquiringAndReleasing) else { return }
    SlotRegistry.shared.end(lease)
  }
}

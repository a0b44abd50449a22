import CCulpritObserver
import CulpritStallRecord
import Synchronization

extension Watchdog {
  /// Runs `body`, which may take `budget`.
  ///
  /// When it takes longer, a stall of the section is reported; `body` is not interrupted. Sections may be nested and
  /// run on many threads at once. When no more sections can be watched (4,096 sources at a time), or the watchdog has
  /// been stopped, `body` runs all the same.
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

  /// Runs `body`, which may take `budget` and may wait without a thread meanwhile.
  ///
  /// As for the form that does not wait. Which thread works on it is not known: a stall's report has all threads.
  ///
  /// - Parameters:
  ///   - name: What reports call the section.
  ///   - budget: What it may take; less than 10 ms counts as 10 ms.
  ///   - isolation: Where `body` runs: where the caller does.
  ///   - body: The work.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws.
  public func section<Result, Failure: Error>(
    _ name: String,
    budget: Duration,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws(Failure) -> Result
  ) async throws(Failure) -> Result {
    let timer = timer(name, budget: budget, onCallingThread: false, onFire: nil)
    defer { timer.invalidate() }
    return try await body()
  }

  /// Starts a timer on a critical section of the calling thread, which may take `budget`.
  ///
  /// - Parameters:
  ///   - name: What reports call the section.
  ///   - budget: What it may take; less than 10 ms counts as 10 ms.
  ///   - onFire: Called once, when the budget runs out before the timer is invalidated; on a thread of its own, while
  ///     the section may still be under way. The stall is reported besides.
  /// - Returns: The timer, to be invalidated when the section is over.
  public func timer(
    _ name: String,
    budget: Duration,
    onFire: (@Sendable (StallEvent) -> Void)? = nil
  ) -> SectionTimer {
    timer(name, budget: budget, onCallingThread: true, onFire: onFire)
  }

  private func timer(
    _ name: String,
    budget: Duration,
    onCallingThread: Bool,
    onFire: (@Sendable (StallEvent) -> Void)?
  ) -> SectionTimer {
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
    else { return SectionTimer(watchdog: self, lease: nil, onFire: nil) }
    let timer = SectionTimer(watchdog: self, lease: lease, onFire: onFire)
    // Before the work begins: from then on the timer can fire.
    if onFire != nil { SlotRegistry.shared.onStall(of: lease) { [weak timer] in timer?.fire($0) } }
    if onCallingThread {
      SlotRegistry.shared.begin(lease, suspicion: limits.suspicion)
    } else {
      observer_slot_set_addresses(lease.slot, PingedSource.nowhere, 0)
      SlotRegistry.shared.begin(lease, for: nil, suspicion: limits.suspicion)
    }
    return timer
  }
}

/// A timer on a critical section of the thread that created it.
///
/// It runs from its creation until ``invalidate()``, or until the last reference is gone. When the section's budget
/// runs out before that, it fires, once: a stall is reported, and its handler is called. Either it is invalidated or it
/// fires: whoever comes second finds that out.
public final class SectionTimer: Sendable {
  private enum Phase: UInt8, AtomicRepresentable {
    case running
    case fired
    case invalidated
  }

  private let lease: SlotRegistry.Lease?
  private let isOver = Atomic<Bool>(false)
  private let phase = Atomic<Phase>(.running)
  private let onFire: (@Sendable (StallEvent) -> Void)?
  private let thread = HandlerThread()
  private let watchdog: Watchdog

  init(watchdog: Watchdog, lease: SlotRegistry.Lease?, onFire: (@Sendable (StallEvent) -> Void)?) {
    self.watchdog = watchdog
    self.lease = lease
    self.onFire = onFire
  }

  deinit {
    invalidate()
    // A handler thread of a child's parent does not run, and may be half changed.
    if lease?.isOurs != false { thread.stop() }
  }

  /// Whether the section is watched at all: not when too many sources are, or the watchdog has been stopped.
  public var isWatched: Bool { lease != nil }

  /// Ends the section. May be called from any thread.
  ///
  /// - Returns: Whether this kept the timer from firing. `false` when it has fired, or was invalidated before. The
  ///   handler is not called after `true` was returned; the stall of a section that had taken too long by then is
  ///   reported all the same.
  @discardableResult
  public func invalidate() -> Bool {
    // First: in a child of fork(2) not even the Swift runtime may be asked for anything that it could have locked.
    if lease?.isOurs == false { return false }
    let isFirst = phase.compareExchange(expected: .running, desired: .invalidated, ordering: .acquiringAndReleasing)
      .exchanged
    guard let lease, !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return isFirst }
    SlotRegistry.shared.end(lease)
    return isFirst
  }

  /// Says something of the work, as ``WatchedLoop/label(_:)`` does.
  public func label(_ text: String) { if let lease { SlotRegistry.shared.label(lease, text) } }

  /// Runs `body`, which may take as long as it does: its time is not part of the section's. May be nested.
  public func expectingSlow<Result: ~Copyable, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    lease?.exempt()
    defer { lease?.exemptNoMore() }
    return try body()
  }

  /// Has the Swift runtime look up all that the end of a section takes, under locks of its own, which another thread
  /// could hold when the process is forked in a section.
  static func prepare(for watchdog: Watchdog) { SectionTimer(watchdog: watchdog, lease: nil, onFire: nil).invalidate() }

  /// The budget has run out.
  fileprivate func fire(_ event: StallEvent) {
    let fires = phase.compareExchange(expected: .running, desired: .fired, ordering: .acquiringAndReleasing).exchanged
    guard fires, let onFire else { return }
    thread.put { onFire(event) }
  }
}

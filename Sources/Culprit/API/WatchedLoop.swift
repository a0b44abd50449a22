import CulpritStallRecord

extension Watchdog {
  /// Watches an event loop whose turns are marked by ``WatchedLoop/begin()`` and ``WatchedLoop/end()``.
  ///
  /// - Parameters:
  ///   - name: The loop's name in reports; unique among watched loops.
  ///   - threshold: The longest time a turn can take, at least 10 ms; default: the configuration's.
  ///   - scoped: Whether releasing the watch ends it; otherwise the watch lasts until `stop()`.
  /// - Returns: The watch.
  /// - Throws: ``WatchdogError``.
  public func watchLoop(
    named name: String,
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedLoop {
    let source = WatchedSource(kind: .loop, name: name)
    return hold(WatchedLoop(watchdog: self, lease: isDisabled ? nil : try lease(source, threshold)), scoped: scoped)
  }

  /// Leases a slot. The monitor polls the slot if `polled`; otherwise each beginning notifies the monitor.
  func lease(
    _ source: WatchedSource,
    _ threshold: Duration?,
    polled: Bool = true
  ) throws(WatchdogError) -> SlotRegistry.Lease {
    try Configuration.check(threshold, ofSource: source.name)
    let engine = try running()
    return try SlotRegistry.shared.lease(source, of: number, for: engine.control, threshold: threshold, polled: polled)
  }
}

/// A watched event loop.
///
///     while let event = poll() {
///       loop.begin()
///       handle(event)
///       loop.end()
///     }
///
/// A mark takes no lock and makes no system call: it reads a clock (the coarse one unless the threshold is short) and
/// performs three stores. The first mark on a thread registers the thread, which takes a lock and can allocate. Turns
/// can move between threads, one turn at a time.
public final class WatchedLoop: Sendable {
  /// `nil` when the watchdog was not started.
  private let lease: SlotRegistry.Lease?
  private let watchdog: Watchdog

  init(watchdog: Watchdog, lease: SlotRegistry.Lease?) {
    self.watchdog = watchdog
    self.lease = lease
  }

  deinit { if let lease { SlotRegistry.shared.end(lease) } }

  /// Marks the beginning of a turn on the calling thread. A turn in progress ends first.
  public func begin() { if let lease { lease.slot.begin() } }

  /// Marks the end of the turn, if any. A turn also ends when its thread exits.
  public func end() { if let lease { lease.slot.end() } }

  /// Labels the work, for example with a request, until the next call; an empty string removes the label. Reports show
  /// the share of each label in a stall. Text longer than 56 bytes keeps its last 56. Must be called on the thread that
  /// marks the turns. Takes no lock and makes no system call.
  public func label(_ text: String) { if let lease { SlotRegistry.shared.label(lease, text) } }

  /// Runs `body` inside a turn, and excludes the time of `body` from the turn. Can be nested.
  public func withExemption<Result: ~Copyable, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    lease?.exempt()
    defer { lease?.endExemption() }
    return try body()
  }

  /// Ends the watch. A second call, and later marks, have no effect.
  public func stop() {
    if let lease { SlotRegistry.shared.stop(lease) }
    watchdog.releaseWatch(of: self)
  }
}

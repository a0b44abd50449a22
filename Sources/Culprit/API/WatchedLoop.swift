import CCulpritObserver
import CulpritStallRecord

extension Watchdog {
  /// Watches an event loop whose turns are marked by ``WatchedLoop/begin()`` and ``WatchedLoop/end()``.
  ///
  /// - Parameters:
  ///   - name: What reports call the loop. No two loops of the same name can be watched at a time.
  ///   - threshold: How long a turn may take, at least 10 ms; default (`nil`): the configuration's.
  ///   - scoped: Whether the watch ends when it is released; default: it lasts until it is stopped.
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

  /// Leases a slot for a source whose work items begin unannounced, unless it is not to be `polled`.
  func lease(
    _ source: WatchedSource,
    _ threshold: Duration?,
    polled: Bool = true
  ) throws(WatchdogError) -> SlotRegistry.Lease {
    try Configuration.check(threshold, ofSource: source.name)
    let core = try running()
    return try SlotRegistry.shared.lease(source, of: number, for: core.control, threshold: threshold, polled: polled)
  }
}

/// An event loop under watch.
///
///     while let event = poll() {
///       loop.begin()
///       handle(event)
///       loop.end()
///     }
///
/// Marking a turn takes no lock and makes no system call: a read of a clock, the coarse one unless the threshold is
/// short, and three stores. A thread's first mark registers the thread, which takes a lock and may allocate. The watch
/// ends with ``stop()``, or with its release if it is scoped. Turns may move from thread to thread, one at a time.
public final class WatchedLoop: Sendable {
  /// `nil` when the watchdog was not started.
  private let lease: SlotRegistry.Lease?
  private let watchdog: Watchdog

  init(watchdog: Watchdog, lease: SlotRegistry.Lease?) {
    self.watchdog = watchdog
    self.lease = lease
  }

  deinit { if let lease { SlotRegistry.shared.end(lease) } }

  /// Marks the beginning of a turn on the calling thread. A turn that is under way ends, and a new one begins.
  public func begin() { if let lease { observer_slot_begin(lease.slot) } }

  /// Marks the end of the turn. Without a turn it does nothing. A turn also ends when its thread exits.
  public func end() { if let lease { observer_slot_end(lease.slot) } }

  /// Runs `body` as one turn.
  ///
  /// - Parameters:
  ///   - label: The turn's label in reports: which request, which job. See ``label(_:)``.
  ///   - body: The turn.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws.
  public func withTurn<Result: ~Copyable, Failure: Error>(
    label: String? = nil,
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    if let label { self.label(label) }
    begin()
    defer {
      end()
      if label != nil { self.label("") }
    }
    return try body()
  }

  /// Labels the work: which request, which job. Every sample carries the label, and reports show for how much of a
  /// stall each held. 56 bytes are kept. The label stays until it is changed; an empty one removes it. Call it on the
  /// thread that marks the turns. Costs no system call and no lock.
  ///
  /// - Parameter text: The label.
  public func label(_ text: String) { if let lease { SlotRegistry.shared.label(lease, text) } }

  /// Runs `body` in a turn; its time is not part of the turn's. May be nested.
  ///
  /// - Parameter body: The work that may take its time.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws.
  public func withExemption<Result: ~Copyable, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    lease?.exempt()
    defer { lease?.exemptNoMore() }
    return try body()
  }

  /// Ends the watch; marks have no effect from then on. The second call does nothing.
  public func stop() {
    if let lease { SlotRegistry.shared.stop(lease) }
    watchdog.letGo(of: self)
  }
}

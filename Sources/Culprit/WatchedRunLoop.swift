import CObserver
import CRunLoop
import StallRecord
import Synchronization

extension Watchdog {
  /// Watches the iterations of the main thread's run loop.
  ///
  /// - Parameter stallThreshold: What an iteration may take, at least 10 ms; the configuration's when `nil`.
  /// - Returns: The watch, which lasts until it is stopped or the last reference to it is gone.
  /// - Throws: ``WatchdogError/noRunLoops`` in a service that does not link Foundation; other ``WatchdogError``s.
  public func watchMainRunLoop(stallThreshold: Duration? = nil) throws(WatchdogError) -> WatchedRunLoop {
    try WatchedRunLoop(watchdog: self, loop: run_loop_main(), name: "main", stallThreshold: stallThreshold)
  }

  /// Watches the iterations of the calling thread's run loop.
  ///
  /// - Parameters:
  ///   - name: What reports call the run loop. No two run loops of the same name can be watched at a time.
  ///   - stallThreshold: What an iteration may take, at least 10 ms; the configuration's when `nil`.
  /// - Returns: The watch, which lasts until it is stopped or the last reference to it is gone.
  /// - Throws: ``WatchdogError/noRunLoops`` in a service that does not link Foundation; other ``WatchdogError``s.
  public func watchCurrentRunLoop(
    named name: String,
    stallThreshold: Duration? = nil
  ) throws(WatchdogError) -> WatchedRunLoop {
    try WatchedRunLoop(watchdog: self, loop: run_loop_current(), name: name, stallThreshold: stallThreshold)
  }
}

/// A run loop under watch, through run loop observers in the common modes.
///
/// An iteration begins when the loop is entered, before it looks at its timers, and when it wakes up; it ends before the
/// loop waits and when it is left. The observer of the beginnings comes before all others and that of the ends after all
/// others, so that what other observers do counts. Waiting in a run that is nested in an iteration is waiting: the outer
/// iteration begins anew when the nested run is left.
public final class WatchedRunLoop: Sendable {
  /// What the observers' callbacks know.
  private struct Context {
    let slot: UnsafeMutablePointer<observer_slot>
    /// How many runs of the loop are nested in each other; used on the loop's thread only.
    var depth = 0
  }

  private struct Observers: @unchecked Sendable {
    // SAFETY: Core Foundation's observers may be invalidated on any thread; done once, under the mutex.
    var pointers: [UnsafeMutableRawPointer] = []
  }

  private let lease: SlotRegistry.Lease
  private let observers = Mutex(Observers())
  private let watchdog: Watchdog

  init(
    watchdog: Watchdog,
    loop: UnsafeMutableRawPointer?,
    name: String,
    stallThreshold: Duration?
  ) throws(WatchdogError) {
    guard let loop else { throw .noRunLoops }
    lease = try watchdog.lease(WatchedSource(kind: .runLoop, name: name), stallThreshold)
    self.watchdog = watchdog
    // Never freed: a callback may be under way when the observers are removed.
    let context = UnsafeMutablePointer<Context>.allocate(capacity: 1)
    context.initialize(to: Context(slot: lease.slot))
    let begins = RUN_LOOP_ENTRY.rawValue | RUN_LOOP_BEFORE_TIMERS.rawValue | RUN_LOOP_AFTER_WAITING.rawValue
    let ends = RUN_LOOP_BEFORE_WAITING.rawValue | RUN_LOOP_EXIT.rawValue
    let added = [
      run_loop_add_observer(loop, UInt(begins), true, Self.iterationBegins, context),
      run_loop_add_observer(loop, UInt(ends), false, Self.iterationEnds, context),
    ]
    observers.withLock { $0.pointers = added.compactMap { $0 } }
    guard added.allSatisfy({ $0 != nil }) else {
      stop()
      throw .noRunLoops
    }
  }

  deinit { stop() }

  /// Ends the watch. Does nothing the second time.
  public func stop() {
    let removed = observers.withLock { observers in
      defer { observers.pointers = [] }
      return Observers(pointers: observers.pointers)
    }
    for pointer in removed.pointers { run_loop_remove_observer(pointer) }
    SlotRegistry.shared.end(lease)
  }

  private static let iterationBegins: @convention(c) (UInt, UnsafeMutableRawPointer?) -> Void = { activity, context in
    guard let context = context?.assumingMemoryBound(to: Context.self) else { return }
    // SAFETY: the context is never freed, and only the loop's thread calls observers.
    if activity == UInt(RUN_LOOP_ENTRY.rawValue) { context.pointee.depth += 1 }
    observer_slot_begin(context.pointee.slot)
  }

  private static let iterationEnds: @convention(c) (UInt, UnsafeMutableRawPointer?) -> Void = { activity, context in
    guard let context = context?.assumingMemoryBound(to: Context.self) else { return }
    // SAFETY: as above.
    observer_slot_end(context.pointee.slot)
    guard activity == UInt(RUN_LOOP_EXIT.rawValue) else { return }
    // A watch that began inside a run sees an exit without an entry.
    context.pointee.depth = max(0, context.pointee.depth - 1)
    if context.pointee.depth > 0 { observer_slot_begin(context.pointee.slot) }
  }
}

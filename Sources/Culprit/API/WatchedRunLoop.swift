import CCulpritObserver
import CCulpritRunLoop
import CulpritStallRecord
import Synchronization

extension Watchdog {
  /// Watches the iterations of the main thread's run loop. Parameters and errors as for
  /// ``watchCurrentRunLoop(named:threshold:scoped:)``.
  @discardableResult
  public func watchMainRunLoop(
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedRunLoop {
    hold(try WatchedRunLoop(watchdog: self, loop: crunloop_main(), name: "main", threshold: threshold), scoped: scoped)
  }

  /// Watches the iterations of the calling thread's run loop.
  ///
  /// - Parameters:
  ///   - name: The run loop's name in reports; unique among watched run loops.
  ///   - threshold: The longest time an iteration can take, at least 10 ms; default: the configuration's.
  ///   - scoped: Whether releasing the watch ends it; otherwise the watch lasts until `stop()`.
  /// - Returns: The watch.
  /// - Throws: ``WatchdogError/Code/noRunLoops`` in a service without Foundation; other ``WatchdogError``s.
  @discardableResult
  public func watchCurrentRunLoop(
    named name: String,
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedRunLoop {
    let loop = crunloop_current()
    return hold(try WatchedRunLoop(watchdog: self, loop: loop, name: name, threshold: threshold), scoped: scoped)
  }
}

/// A run loop that is watched by observers in the common modes.
///
/// An iteration begins when the loop is entered, before it processes timers, and when it wakes up. It ends before the
/// loop waits and when the loop exits. It includes the time of other observers. Waiting in a nested run ends the outer
/// iteration.
public final class WatchedRunLoop: Sendable {
  private final class Context: Sendable {
    private let slot: Mutex<UnsafeMutablePointer<observer_slot>?>
    /// The nesting depth of runs, changed only on the loop's thread.
    let depth = Atomic<Int>(0)

    init(_ slot: sending UnsafeMutablePointer<observer_slot>?) { self.slot = Mutex(slot) }

    /// Calls `body` if the slot is still leased: a callback can run after the removal of its observer.
    func mark(_ body: (UnsafeMutablePointer<observer_slot>) -> Void) {
      slot.withLock { if let slot = $0 { body(slot) } }
    }

    /// Stops callbacks from marking the slot.
    func leave() { slot.withLock { $0 = nil } }
  }

  private struct Observers: @unchecked Sendable {
    // SAFETY: Core Foundation permits invalidating observers on any thread. Each is invalidated once, by the thread
    // that took the pointer under the mutex.
    var pointers: [UnsafeMutableRawPointer] = []
  }

  /// `nil` when the watchdog was not started.
  private let lease: SlotRegistry.Lease?
  private let context: Context
  private let observers = Mutex(Observers())
  private let watchdog: Watchdog

  init(
    watchdog: Watchdog,
    loop: UnsafeMutableRawPointer?,
    name: String,
    threshold: Duration?
  ) throws(WatchdogError) {
    self.watchdog = watchdog
    guard !watchdog.isDisabled else {
      lease = nil
      context = Context(nil)
      return
    }
    guard let loop else { throw .noRunLoops }
    let lease = try watchdog.lease(WatchedSource(kind: .runLoop, name: name), threshold)
    self.lease = lease
    context = Context(lease.slot)
    // Never released: a callback might run during the removal of the observers.
    let pointer = Unmanaged.passRetained(context).toOpaque()
    let begins = CRUNLOOP_ENTRY.rawValue | CRUNLOOP_BEFORE_TIMERS.rawValue | CRUNLOOP_AFTER_WAITING.rawValue
    let ends = CRUNLOOP_BEFORE_WAITING.rawValue | CRUNLOOP_EXIT.rawValue
    let added = [
      crunloop_add_observer(loop, UInt(begins), true, Self.iterationBegins, pointer),
      crunloop_add_observer(loop, UInt(ends), false, Self.iterationEnds, pointer),
    ]
    observers.withLock { $0.pointers = added.compactMap { $0 } }
    guard added.allSatisfy({ $0 != nil }) else {
      stop()
      throw .noRunLoops
    }
  }

  deinit { stop() }

  /// Ends the watch. A second call does nothing.
  public func stop() {
    // In a child of fork(2), the observers and the slot belong to the parent.
    if lease?.isOurs == false { return }
    for pointer in observers.exchange(Observers()).pointers { crunloop_remove_observer(pointer) }
    context.leave()
    if let lease { SlotRegistry.shared.end(lease) }
    watchdog.releaseWatch(of: self)
  }

  private static let iterationBegins: @convention(c) (UInt, UnsafeMutableRawPointer?) -> Void = { activity, pointer in
    guard let pointer else { return }
    // SAFETY: the pointer is the context, which is never released.
    let context = Unmanaged<Context>.fromOpaque(pointer).takeUnretainedValue()
    if activity == UInt(CRUNLOOP_ENTRY.rawValue) { context.depth.add(1, ordering: .relaxed) }
    context.mark { $0.begin() }
  }

  private static let iterationEnds: @convention(c) (UInt, UnsafeMutableRawPointer?) -> Void = { activity, pointer in
    guard let pointer else { return }
    // SAFETY: the pointer is the context, which is never released.
    let context = Unmanaged<Context>.fromOpaque(pointer).takeUnretainedValue()
    context.mark { $0.end() }
    // A watch that began inside a run observes an exit without an entry.
    guard activity == UInt(CRUNLOOP_EXIT.rawValue), context.depth.load(ordering: .relaxed) > 0 else { return }
    let depth = context.depth.subtract(1, ordering: .relaxed).newValue
    if depth > 0 { context.mark { $0.begin() } }
  }
}

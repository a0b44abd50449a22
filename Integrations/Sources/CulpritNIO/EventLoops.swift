import Culprit
import NIOCore
import Synchronization

extension Watchdog {
  /// Watches the event loops of a SwiftNIO group.
  ///
  ///     try watchdog.watch(MultiThreadedEventLoopGroup.singleton)
  ///
  /// Repeatedly submits a small closure to each loop. A closure that waits longer than the threshold is a stall of the
  /// loop. After its first closure, a loop is sampled from an eighth of the threshold on.
  ///
  /// Stop the watch, or the watchdog, before the group shuts down. Otherwise the watch ends when a loop discards a
  /// closure, and SwiftNIO prints an error about the closure.
  ///
  /// - Parameters:
  ///   - group: The event loops, for example `MultiThreadedEventLoopGroup.singleton`.
  ///   - name: The group's name in reports. Loops have this name and a number: `nio #1`.
  ///   - threshold: The longest time a closure can wait, at least 10 ms; default: 200 ms.
  ///   - scoped: Whether the watch ends when it is released. By default, it lasts until it is stopped.
  /// - Returns: The watch of all loops.
  /// - Throws: ``WatchdogError``. After an error, no loop is watched.
  @discardableResult
  public func watch(
    _ group: any EventLoopGroup,
    named name: String = "nio",
    threshold: Duration = .milliseconds(200),
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedProbe {
    let end = WatchEnd()
    let watch = try watchLoops(
      named: name,
      threshold: threshold,
      scoped: scoped,
      execute: group.makeIterator().map { loop in
        { probe in
          let submitted = SubmittedProbe(probe, end)
          loop.execute { submitted.run() }
        }
      }
    )
    end.use(watch)
    return watch
  }
}

/// A probe in the queue of an event loop. A loop that shuts down releases the probe without running it. This ends the
/// watch, because a probe that never runs would count as a stall.
private final class SubmittedProbe: Sendable {
  private let probe: @Sendable () -> Void
  private let end: WatchEnd
  private let hasRun = Atomic(false)

  init(_ probe: @escaping @Sendable () -> Void, _ end: WatchEnd) {
    self.probe = probe
    self.end = end
  }

  deinit { if !hasRun.load(ordering: .relaxed) { end.request() } }

  func run() {
    hasRun.store(true, ordering: .relaxed)
    probe()
  }
}

/// Ends a watch, even before the watch is available.
private final class WatchEnd: Sendable {
  private struct State {
    weak var watch: WatchedProbe?
    var isRequested = false
  }

  private let state = Mutex(State())

  /// Sets the watch that must end.
  func use(_ watch: WatchedProbe) {
    let isRequested = state.withLock { state in
      state.watch = watch
      return state.isRequested
    }
    if isRequested { watch.stop() }
  }

  /// Ends the watch now, or as soon as ``use(_:)`` sets the watch.
  func request() {
    let watch = state.withLock { state in
      state.isRequested = true
      return state.watch
    }
    watch?.stop()
  }
}

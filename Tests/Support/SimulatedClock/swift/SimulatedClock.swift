import CCulpritObserver
import CSimulatedClock
import Foundation

// Makes reports treat the clock as a dependency, and blame its callers.
#sourceLocation(file:".build/checkouts/simulated-clock/Clock.swift",line:7)

/// A clock that the watchdog and its tests share. Its time passes only while a test waits for it, and only after the
/// watchdog's threads have finished the work of the present instant.
///
///     let clock = SimulatedClock()
///     loop.begin()
///     clock.block(for: .seconds(5))    // takes milliseconds; the watchdog samples this thread meanwhile
///     loop.end()
///
/// Calls of the watchdog that wait, such as `stop()`, let time pass, too.
package struct SimulatedClock: Clock {
  /// A time on the clock.
  package struct Instant: InstantProtocol, Sendable {
    /// Nanoseconds of the simulated CLOCK_MONOTONIC.
    package var nanoseconds: UInt64

    package static var now: Instant { SimulatedClock().now }

    package func advanced(by duration: Duration) -> Instant {
      Instant(nanoseconds: UInt64(Int64(nanoseconds) + duration.nanoseconds))
    }

    package func duration(to other: Instant) -> Duration {
      .nanoseconds(Int64(other.nanoseconds) - Int64(nanoseconds))
    }

    package static func + (begin: Instant, duration: Duration) -> Instant { begin.advanced(by: duration) }
    package static func - (end: Instant, begin: Instant) -> Duration { begin.duration(to: end) }
    package static func < (a: Instant, b: Instant) -> Bool { a.nanoseconds < b.nanoseconds }
  }

  package init() {}

  package var now: Instant { Instant(nanoseconds: simulated_clock_now_ns()) }
  package var minimumResolution: Duration { .nanoseconds(1) }

  /// Begins a simulation, and stops the time.
  ///
  /// - Parameter patience: The longest wait for a requested stack before time passes, in the kernel's time.
  package func begin(patience: Duration = .milliseconds(500)) {
    simulated_clock_begin({ observer_capture_is_pending() }, UInt64(patience.nanoseconds))
  }

  /// Ends the simulation: the clock runs again, ahead of the kernel's by the simulated time.
  package func end() { simulated_clock_end() }

  /// Blocks the calling thread until `duration` has passed and the watchdog has done the work of that instant.
  @inline(never)
  package func block(for duration: Duration) { simulated_clock_block_until(now.advanced(by: duration).nanoseconds) }

  /// Lets the watchdog finish the work of the present instant.
  package func settle() { block(for: .zero) }

  /// Lets `duration` pass while the caller continues.
  ///
  /// - Returns: The time at its end.
  @discardableResult
  package func letPass(_ duration: Duration) -> Instant {
    let end = now.advanced(by: duration)
    simulated_clock_let_pass_until(end.nanoseconds)
    return end
  }

  /// Moves the clock by `duration` in one step, as for a process that was stopped meanwhile.
  package func skip(_ duration: Duration) { simulated_clock_skip(UInt64(duration.nanoseconds)) }

  /// Sets the wall clock forwards, or backwards if `step` is negative.
  package func stepWallClock(by step: Duration) { simulated_clock_step_wall(step.nanoseconds) }

  /// Runs `body` on the calling thread, which counts as the watchdog's: time passes only while the thread waits for the
  /// clock.
  package func countingThread<Result>(_ body: () throws -> Result) rethrows -> Result {
    simulated_clock_thread_created()
    simulated_clock_thread_began()
    defer { simulated_clock_thread_ends() }
    return try body()
  }

  /// Runs `body` on a new thread that counts as the watchdog's from this call on.
  package func detachThread(_ body: @escaping @Sendable () -> Void) {
    simulated_clock_thread_created()
    Thread.detachNewThread {
      simulated_clock_thread_began()
      defer { simulated_clock_thread_ends() }
      body()
    }
  }

  /// Runs `body`, in which a handler or a thread of ``countingThread(_:)`` waits for the test. Meanwhile time can pass.
  package func whileIdle<Result>(_ body: () throws -> Result) rethrows -> Result {
    simulated_clock_set_idle(true)
    defer { simulated_clock_set_idle(false) }
    return try body()
  }

  /// Lets time pass until `condition` holds, for ten simulated minutes at most.
  ///
  /// - Returns: Whether `condition` holds.
  @discardableResult
  package func wait(until condition: () -> Bool) -> Bool {
    settle()
    let end = now.advanced(by: .seconds(600))
    while !condition() {
      guard now < end else { return false }
      block(for: .milliseconds(10))
    }
    return true
  }

  package func sleep(until deadline: Instant, tolerance: Duration?) async throws {
    await withCheckedContinuation { continuation in
      // Not on the pool of tasks, which the caller may be testing.
      DispatchQueue.global().async {
        simulated_clock_block_until(deadline.nanoseconds)
        continuation.resume()
      }
    }
  }
}

extension Duration {
  fileprivate var nanoseconds: Int64 {
    Int64(components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000)
  }
}

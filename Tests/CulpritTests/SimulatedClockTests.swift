import Foundation
import TestSupport
import Testing

@testable import Culprit

/// The clock of all suites with `.usesSimulatedClock`.
@Suite(.usesSimulatedClock) struct SimulatedClockTests {
  /// A tick that the kernel's time causes is early, and the next one misses its threshold.
  @Test func monitorWaitsForSimulatedTime() throws {
    let watchdog = try Watchdog()
    defer { watchdog.stop() }
    clock.settle()
    let before = watchdog.status.wakeups
    usleep(1_200_000)
    #expect(watchdog.status.wakeups == before)
  }
}

import Foundation
import TestSupport
import Testing

@testable import Culprit

@Suite(.usesSimulatedClock) struct SimulatedClockTests {
  /// A tick on the kernel's clock would be early, and the next tick would miss its threshold.
  @Test func monitorWaitsForSimulatedTime() throws {
    let watchdog = try Watchdog()
    defer { watchdog.stop() }
    clock.settle()
    let before = watchdog.status.wakeups
    usleep(1_200_000)
    #expect(watchdog.status.wakeups == before)
  }
}

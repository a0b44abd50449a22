import Foundation
import TestSupport
import Testing

@testable import Culprit

@Suite(.usesSimulatedClock) struct SimulatedClockTests {
  /// The monitor must not tick while only real time passes.
  @Test func monitorWaitsForSimulatedTime() throws {
    let watchdog = try Watchdog()
    defer { watchdog.stop() }
    clock.settle()
    let before = watchdog.status.wakeups
    usleep(1_200_000)
    #expect(watchdog.status.wakeups == before)
  }
}

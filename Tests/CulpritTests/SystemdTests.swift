import Foundation
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct SystemdTests {
  @TemporaryDirectory private var directory: String

  private func watchdog(_ variables: [String: String]) throws -> Watchdog {
    var configuration = Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50))
    configuration.sampling.hangThreshold = .milliseconds(400)
    configuration.lifecycle.notifiesSystemd = true
    return try Watchdog(configuration, environment: Environment(variables))
  }

  @Test(arguments: [false, true]) func notifiesSystemdOfLifecycle(isAbstract: Bool) throws {
    let listener = try SystemdListener(isAbstract ? "@culprit-test-\(UUID().uuidString)" : "\(directory)/notify")
    let watchdog = try watchdog(["NOTIFY_SOCKET": listener.name, "WATCHDOG_USEC": "1000000"])
    let reports = Reports()
    watchdog.onStall { reports.add($0) }
    let loop = try watchdog.watchLoop(named: "http")
    clock.settle()
    #expect(listener.heard() == ["WATCHDOG=1"])
    watchdog.launched()
    watchdog.notifySystemd(status: "serving\nREADY=0")
    clock.settle()
    #expect(listener.heard() == ["READY=1", "STATUS=serving READY=0"])
    clock.block(for: .seconds(1))
    #expect(listener.heard() == ["WATCHDOG=1", "WATCHDOG=1"])
    // The next ping is due 20 ms after the monitor's tick at the hang threshold, 400 ms.
    clock.block(for: .milliseconds(80))
    loop.begin()
    clock.block(for: .milliseconds(800))
    #expect(listener.heard() == ["STATUS=\"http\" has been stuck for 0.4 s"])
    // systemd ends the service one second after the last ping.
    #expect(reports.all.map(\.hasEnded) == [false] && watchdog.status.systemd?.hangs == 1)
    loop.end()
    clock.block(for: .seconds(1))
    #expect(listener.heard() == ["STATUS=", "WATCHDOG=1", "WATCHDOG=1"])
    #expect(reports.all.map(\.hasEnded) == [false, true])
    watchdog.shuttingDown()
    watchdog.stop()
    #expect(listener.heard() == ["STOPPING=1"])
  }

  @Test func doesNotWaitForFullSocket() throws {
    let listener = try SystemdListener("\(directory)/notify")
    let watchdog = try watchdog(["NOTIFY_SOCKET": listener.name, "WATCHDOG_USEC": "20000"])
    watchdog.launched()
    clock.wait { watchdog.status.systemd?.problem != nil }
    #expect(watchdog.status.systemd?.problem == "Resource temporarily unavailable")
    watchdog.notifySystemd(status: "unsent")
    #expect(watchdog.stop(patience: .seconds(1)))
    let heard = listener.heard()
    #expect(heard.contains("READY=1") && heard.contains("WATCHDOG=1") && !heard.contains("STATUS=unsent"))
  }

  @Test func sendsNoPingsForAnotherProcess() throws {
    let listener = try SystemdListener("\(directory)/notify")
    let variables = ["NOTIFY_SOCKET": listener.name, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"]
    let watchdog = try watchdog(variables)
    watchdog.launched()
    clock.block(for: .seconds(1))
    #expect(watchdog.status.systemd?.pings == 0)
    watchdog.stop()
    #expect(listener.heard() == ["READY=1"])
  }

  @Test func reportsInvalidVariables() throws {
    let watchdog = try watchdog(["NOTIFY_SOCKET": "vsock:2:1234", "WATCHDOG_USEC": "soon"])
    #expect(
      watchdog.status.problems == [
        "cannot notify systemd: NOTIFY_SOCKET is \"vsock:2:1234\": Address family not supported by protocol",
        "WATCHDOG_USEC is \"soon\"; it must be a number of microseconds; systemd gets no pings",
      ]
    )
    #expect(watchdog.status.systemd == nil)
    watchdog.stop()
  }
}

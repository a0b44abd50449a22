import Culprit
import Glibc
import Programs

/// A service that becomes ready and hangs until systemd ends it.
@Sendable func hangUnderSystemd(_ arguments: [String]) throws {
  var configuration = Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50))
  configuration.sampling.hangThreshold = .milliseconds(400)
  configuration.lifecycle.notifiesSystemd = true
  let watchdog = try Watchdog(configuration)
  watchdog.onStall { report in say("report=\(report.source.name), \(report.hasEnded ? "over" : "under way")") }
  let loop = try watchdog.watchLoop(named: "http")
  watchdog.launched()
  loop.withTurn { while true { pause() } }
}

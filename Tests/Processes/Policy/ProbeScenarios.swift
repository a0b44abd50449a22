import Culprit
import Glibc
import Programs
import Synchronization

private let isStuck = Atomic<Bool>(false)

/// A service that renews a file while no thread hangs, as in docs/deploying.md. The line `hang` of standard input makes
/// its loop hang, and any other line ends the hang.
@Sendable func liveForAProbe(_ arguments: [String]) throws {
  let file = arguments.first ?? ""
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200), hangThreshold: .milliseconds(400)))
  watchdog.onStall { report in say("report=\(report.source.name)") }
  let loop = try watchdog.watchLoop(named: "http")
  startThread {
    while true {
      if watchdog.status.hanging.isEmpty {
        // Truncation updates the modification time.
        let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
        say("renewed=true")
      } else {
        say("hanging=true")
      }
      usleep(100_000)
    }
  }
  startThread {
    while true {
      loop.withTurn { while isStuck.load(ordering: .acquiring) { usleep(1000) } }
      usleep(10_000)
    }
  }
  while let line = readLine() {
    isStuck.store(line == "hang", ordering: .releasing)
  }
  watchdog.stop(patience: .seconds(10))
  exit(0)
}

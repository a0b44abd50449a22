import Culprit
import Glibc
import Synchronization

private let isStuck = Atomic<Bool>(false)

/// A service that renews a file while no thread hangs, as in docs/deploying.md. Each line of standard input makes it hang or go on.
@Sendable func liveForAProbe(_ arguments: [String]) throws {
  let file = arguments.first ?? ""
  let watchdog = try Watchdog(
    Watchdog.Configuration(threshold: .milliseconds(200), hangThreshold: .milliseconds(400))
  )
  watchdog.onStall { report in say("report=\(report.source.name)") }
  let loop = try watchdog.watchLoop(named: "http")
  onOwnThread {
    while true {
      if watchdog.status.hanging.isEmpty {
        // An empty file sets the time.
        let descriptor = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
        if descriptor >= 0 { close(descriptor) }
        say("renewed=true")
      } else {
        say("hanging=true")
      }
      usleep(100_000)
    }
  }
  onOwnThread {
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

/// Runs `body` on a thread of its own.
private func onOwnThread(_ body: @escaping @Sendable () -> Void) {
  final class Box: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
  }
  var thread = pthread_t()
  let pointer = Unmanaged.passRetained(Box(body)).toOpaque()
  let error = pthread_create(
    &thread,
    nil,
    { pointer in
      // SAFETY: the pointer is the box, which was retained for this thread.
      if let pointer { Unmanaged<Box>.fromOpaque(pointer).takeRetainedValue().body() }
      return nil
    },
    pointer
  )
  if error != 0 { say("error=\(String(cString: strerror(error)))") }
}

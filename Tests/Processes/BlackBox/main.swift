// A service for tests that observe its end, from outside and in its next launch.
//
//   $ blackbox-process /tmp/runs stall
//   stalled=123456789            (CLOCK_MONOTONIC in nanoseconds, just before the work began)
//   $ kill -KILL …; blackbox-process /tmp/runs report
//   run=4242 fatal hang: ended while work was stuck
//   hang=main holdUp(_:) 1234567890 10 3
//
// Prints facts as `name=value`.

import Culprit
import Glibc
import Programs
import TestWorkloads

// SIGALRM ends a hanging process. The limit allows for a busy machine.
alarm(100)

guard CommandLine.arguments.count >= 3, scenarios[CommandLine.arguments[2]] != nil else {
  say("usage: blackbox-process DIRECTORY \(scenarios.keys.sorted().joined(separator: "|"))")
  exit(2)
}

func serve() -> Int32 {
  do {
    var configuration = Watchdog.Configuration(
      threshold: .milliseconds(200),
      interval: .milliseconds(200),
      directory: CommandLine.arguments[1]
    )
    configuration.storage.keepsRecoveredStalls = !CommandLine.arguments.contains("--forget")
    let watchdog = try Watchdog(configuration)
    watchdog.onStall { _ in }
    try scenarios[CommandLine.arguments[2]]?(watchdog)
    return 0
  } catch {
    say("error=\(error)")
    return 1
  }
}

// A prefork server: each worker starts its own watchdog, and the parent waits for all workers.
if let place = CommandLine.arguments.firstIndex(of: "--workers"), let count = Int(CommandLine.arguments[place + 1]) {
  var isWorker = false
  for _ in 0..<count where !isWorker { isWorker = workload_plain_fork() == 0 }
  while !isWorker, wait(nil) > 0 || errno == EINTR {}
  guard isWorker else { exit(0) }
  alarm(100)
  exit(workload_call_on_thread(serve))
}
if CommandLine.arguments.contains("--filtered"), !workload_refuse_call("unshare") { exit(77) }
let status = serve()
if status != 0 { exit(status) }

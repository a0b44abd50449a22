// A process whose main thread waits for what another thread holds, in one of many ways, under a watchdog.
//
//   $ waiting-process mutex
//   STALL     event loop "orders" was stuck for …
//
// Prints the report of the stall as text, or with `json` behind the scenario as JSON.

import Culprit
import Foundation
import Glibc

// What hangs is ended by SIGALRM. Generous, because the machine may be busy.
alarm(100)

guard CommandLine.arguments.count >= 2, let scenario = scenarios[CommandLine.arguments[1]] else {
  print("usage: waiting-process \(scenarios.keys.sorted().joined(separator: "|")) [json]")
  exit(2)
}
let isJSON = CommandLine.arguments.contains("json")
let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(600), interval: .milliseconds(50)))
watchdog.onStall { report in
  if isJSON {
    print(String(decoding: (try? JSONEncoder().encode(report)) ?? Data(), as: UTF8.self))
  } else {
    print(report)
  }
}
let ending = NSLock()
/// Ends the process when everything has been reported; who comes second waits for that.
@Sendable func finish() -> Never {
  ending.lock()
  watchdog.stop(patience: .seconds(60))
  fflush(nil)
  _exit(0)
}
// What never ends is reported when the watch does.
Thread.detachNewThread {
  usleep(6_000_000)
  finish()
}
let loop = try watchdog.watchLoop(named: "orders")
loop.withTurn { scenario() }
// It has ended before that.
finish()

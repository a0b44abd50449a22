// A process under a watchdog. Its main thread waits for a resource of another thread.
//
//   $ waiting-process mutex
//   STALL     event loop "orders" was stuck for …
//
// Prints the report of the stall as text, or as JSON if `json` follows the scenario.

import Culprit
import Foundation
import Glibc
import SimulatedClock

// Ends a hanging process.
alarm(100)

let allScenarios = scenarios.merging(bridgeScenarios) { $1 }
guard CommandLine.arguments.count >= 2, let scenario = allScenarios[CommandLine.arguments[1]] else {
  print("usage: waiting-process \(allScenarios.keys.sorted().joined(separator: "|")) [json]")
  exit(2)
}
// The clock is simulated unless the kernel or the Swift runtime measures the time of the scenario.
let clock = SimulatedClock()
let isReal =
  ["nested-task", "file-lock"].contains(CommandLine.arguments[1]) || bridgeScenarios[CommandLine.arguments[1]] != nil
if !isReal { clock.begin() }
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
/// Ends the process when everything has been reported. Later callers block.
@Sendable func finish() -> Never {
  ending.lock()
  watchdog.stop(patience: .seconds(60))
  fflush(nil)
  _exit(0)
}
// A scenario that never ends is reported when the watch ends.
if endlessScenarios.contains(CommandLine.arguments[1]) {
  Thread.detachNewThread {
    awaitAllAsleep()
    clock.block(for: .seconds(3))
    finish()
  }
}
if bridgeScenarios[CommandLine.arguments[1]] != nil {
  scenario()
} else {
  let loop = try watchdog.watchLoop(named: "orders")
  loop.withTurn { scenario() }
}
finish()

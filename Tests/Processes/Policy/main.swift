// A process whose watchdog is tested from outside, through the environment, signals, sockets and the end of the
// process.
//
//   $ CULPRIT_THRESHOLD=2s policy-process settings
//   threshold=2.0 seconds
//   …
//
// Prints facts as `name=value`.

import Culprit
import Glibc
import Programs

beginProgram()
guard CommandLine.arguments.count >= 2, let scenario = scenarios[CommandLine.arguments[1]] else {
  say("usage: policy-process \(scenarios.keys.sorted().joined(separator: "|")) [ARGUMENT…]")
  exit(2)
}
do {
  try scenario(Array(CommandLine.arguments.dropFirst(2)))
} catch {
  say("error=\(error)")
  exit(1)
}

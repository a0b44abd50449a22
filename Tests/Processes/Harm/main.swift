// A service that does to its watchdog what services do: forks, closes descriptors that are not its own, ends threads,
// restarts the watchdog. A test says from outside whether anybody came to harm.
//
//   $ harm-process forks 100
//   exited=100
//   crashed=0
//
// Prints facts as `name=value`.

import Culprit
import Glibc

/// Writes `text` to standard output, past the C library's buffer.
func say(_ text: String) {
  let bytes = Array((text + "\n").utf8)
  _ = write(STDOUT_FILENO, bytes, bytes.count)
}

// What hangs is ended by SIGALRM. Generous, because the machine may be busy.
alarm(100)

guard CommandLine.arguments.count >= 2, let scenario = scenarios[CommandLine.arguments[1]] else {
  say("usage: harm-process \(scenarios.keys.sorted().joined(separator: "|")) [ARGUMENT]...")
  exit(2)
}
do {
  try scenario(Array(CommandLine.arguments.dropFirst(2)))
} catch {
  say("error=\(error)")
  exit(1)
}

// A process under a watchdog whose policies are tested from outside: by its environment, signals, sockets and its end.
//
//   $ CULPRIT_THRESHOLD=2s policy-process settings
//   threshold=2.0 seconds
//   …
//
// Prints facts as `name=value`.

import Culprit
import Glibc

// A Dispatch thread that starts this process blocks most signals.
var none = sigset_t()
sigemptyset(&none)
pthread_sigmask(SIG_SETMASK, &none, nil)
// SIGALRM ends a hanging process. Generous, because the machine can be busy.
alarm(100)

func say(_ text: String) {
  let bytes = Array((text + "\n").utf8)
  _ = write(STDOUT_FILENO, bytes, bytes.count)
}

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

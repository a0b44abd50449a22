// Stalls of loops while many requests wait.
//
//   $ outage-process                       with none, 100, 1,000 and 4,000 requests, each in a process of its own
//   $ outage-process --brief               with none and 1,000
//   $ outage-process --requests=1000       with so many, in this process: facts as "name=value"
//   $ outage-process --requests=1000 --hold=70    the same, and the requests wait for so many seconds

import Culprit
import Glibc

let words = Array(CommandLine.arguments.dropFirst())
switch words.first {
case nil: exit(try compare([0, 100, 1000, 4000]) ? 0 : 1)
case "--brief": exit(try compare([0, 1000]) ? 0 : 1)
case .some:
  func number(_ option: String) -> Int? {
    words.first { $0.hasPrefix(option) }.flatMap { Int($0.dropFirst(option.count)) }
  }
  guard let count = number("--requests="), count >= 0 else {
    say("usage: outage-process [--brief | --requests=COUNT [--hold=SECONDS]]")
    exit(2)
  }
  try Service(try Watchdog()).run(requests: count, hold: Double(number("--hold=") ?? 0))
}

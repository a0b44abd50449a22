// Stalls of loops while many requests wait.
//
//   $ outage-process                       with 0, 100, 1,000 and 4,000 requests, each in a separate process
//   $ outage-process --brief               with 0 and 1,000
//   $ outage-process --requests=1000       with this number, in this process: facts as "name=value"
//   $ outage-process --requests=1000 --hold=70    the requests wait for 70 seconds
//   $ outage-process --requests=1000 --unwatched  without a watchdog

import Culprit
import Foundation
import Glibc
import Programs

let words = Array(CommandLine.arguments.dropFirst())
switch words.first {
case nil: exit(try compare([0, 100, 1000, 4000]) ? 0 : 1)
case "--brief": exit(try compare([0, 1000]) ? 0 : 1)
case .some:
  func number(_ option: String) -> Int? {
    words.first { $0.hasPrefix(option) }.flatMap { Int($0.dropFirst(option.count)) }
  }
  guard let count = number("--requests="), count >= 0 else {
    say("usage: outage-process [--brief | --requests=COUNT [--hold=SECONDS] [--unwatched]]")
    exit(2)
  }
  var limit = rlimit(rlim_cur: 256, rlim_max: 1024)
  setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  let directory = "/tmp/culprit-outage-\(getpid())"
  var configuration = Watchdog.Configuration()
  configuration.storage.directory = directory
  configuration.isEnabled = !words.contains("--unwatched")
  let watchdog = try Watchdog(configuration)
  try Service(watchdog).run(requests: count, hold: Double(number("--hold=") ?? 0))
  watchdog.stop(patience: .seconds(10))
  if configuration.isEnabled { try FileManager.default.removeItem(atPath: directory) }
}

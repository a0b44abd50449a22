// Stalls with known causes, one at a time.
//
//   $ causes-process list            prints all stalls, one a line: cause, culprit and lock owner
//   $ causes-process lock-nslock     plays one: prints a line with measurements and a line with the report
//   $ causes-process judge 0         plays all with this number of busy processes: prints the number of right reports
//   $ causes-process judge 4 brief   plays the first of each cause
//   $ causes-process judge 0 lock-nslock lock-queue   plays these
//
// Exits with 77 if the machine lacks a required resource or privilege.

import CauseWork
import Foundation
import Glibc

// Writes to a closed pipe must fail with an error instead of a signal.
signal(SIGPIPE, SIG_IGN)

let words = CommandLine.arguments.dropFirst()
if words == ["list"] {
  for scenario in Scenario.all { print(scenario.line) }
  exit(0)
}
if words == ["spin"] {
  cause_spin()
}
if words.first == "judge", let busy = words.dropFirst().first.flatMap({ Int($0) }) {
  let others = try BusyProcesses(busy)
  var player = Player()
  let names = words.dropFirst(2)
  let chosen =
    names == ["brief"] ? Scenario.some : Scenario.all.filter { names.isEmpty || names.contains($0.name) }
  for scenario in chosen {
    player.play(scenario)
    fflush(nil)
  }
  others.end()
  print(player.judgement.facts)
  exit(0)
}
// SIGALRM ends a hanging process. The time is long, because the machine can be busy.
alarm(100)
guard words.count == 1, let scenario = Scenario.all.first(where: { $0.name == words.first }) else {
  print("usage: causes-process list|NAME|judge BUSY [brief|NAME...]")
  exit(2)
}
let stage = try Stage(interval: scenario.interval)
do {
  try scenario.play(stage)
  stage.finish()
} catch {
  stage.leave(with: error is Unavailable ? 77 : 1, saying: "causes-process: \(scenario.name): \(error)")
}

// Stalls whose causes are known, one at a time.
//
//   $ causes-process list            all of them, each a line: what holds it up, and who is to blame
//   $ causes-process lock-nslock     one: a line with the truth as the program measured it, a line with the report
//   $ causes-process judge 0         all of them, beside so many busy processes: how many reports were right
//   $ causes-process judge 4 brief   some of each family
//   $ causes-process judge 0 lock-nslock lock-queue   these
//
// Ends with 77 where the machine does not allow what it takes.

import CauseWork
import Foundation
import Glibc

// Who writes to what nobody reads is told by the call.
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
// What hangs is ended by SIGALRM. Generous, because the machine may be busy.
alarm(100)
guard words.count == 1, let scenario = Scenario.all.first(where: { $0.name == words.first }) else {
  print("usage: causes-process list|NAME|judge BUSY [brief|NAME...]")
  exit(2)
}
let stage = try Stage()
do {
  try scenario.play(stage)
  stage.finish()
} catch {
  stage.leave(with: error is Unavailable ? 77 : 1, saying: "causes-process: \(scenario.name): \(error)")
}

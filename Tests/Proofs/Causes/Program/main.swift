// Stalls whose causes are known, one at a time.
//
//   $ causes-process list            all of them, each a line: what holds it up, and who is to blame
//   $ causes-process lock-nslock     one: a line with the truth as the program measured it, a line with the report
//
// Ends with 77 where the machine does not allow what it takes.

import Foundation
import Glibc

// What hangs is ended by SIGALRM. Generous, because the machine may be busy.
alarm(100)
// Who writes to what nobody reads is told by the call.
signal(SIGPIPE, SIG_IGN)

let words = CommandLine.arguments.dropFirst()
if words == ["list"] {
  for scenario in Scenario.all { print(scenario.line) }
  exit(0)
}
guard words.count == 1, let scenario = Scenario.all.first(where: { $0.name == words.first }) else {
  print("usage: causes-process list|NAME")
  exit(2)
}
let stage = try Stage()
do {
  try scenario.play(stage)
  stage.finish()
} catch {
  stage.leave(with: error is Unavailable ? 77 : 1, saying: "causes-process: \(scenario.name): \(error)")
}

// Tasks on Swift's pool, some of which hold its threads for too long.
//
//   $ PROCESSORS=4 tasks-process trials all 20 7     20 trials of seed 7: all threads run the culprit, then other work
//   $ PROCESSORS=4 tasks-process trials one 20 7     one thread runs both
//   $ PROCESSORS=4 tasks-process healthy 600 7       600 seconds of tasks that keep all threads busy
//   $ PROCESSORS=64 tasks-process cost 10            the cost of watching many busy threads
//   $ PROCESSORS=4 tasks-process rate 20             the rate of served requests, alternately watched and unwatched
//   $ PROCESSORS=4 tasks-process sections 20 7       sections that suspend, after the culprit has returned
//   $ tasks-process chains 100 7                     stalls at the end of 100 random chains of async functions
//
// Facts are printed as "name=value".

import Culprit
import Glibc
import Processors
import Programs

let words = Array(CommandLine.arguments.dropFirst())
let numbers = words.compactMap { Int($0) }
do {
  switch (words.first, numbers.count) {
  case ("trials", 2):
    var trials = try Trials(isOne: words[1] == "one", seed: UInt64(numbers[1]))
    try trials.run(numbers[0])
  case ("healthy", 2): try HealthyLoad(seed: UInt64(numbers[1])).run(seconds: numbers[0])
  case ("cost", 1): try measureCost(seconds: numbers[0])
  case ("rate", 1): try measureRate(rounds: numbers[0])
  case ("sections", 2):
    var sections = Sections(seed: UInt64(numbers[1]))
    try await sections.run(numbers[0])
  case ("chains", 2):
    var chains = Chains(seed: UInt64(numbers[1]))
    try await chains.run(numbers[0])
  default:
    say(
      "usage: tasks-process trials all|one COUNT SEED | sections COUNT SEED | chains COUNT SEED | healthy SECONDS SEED"
        + " | cost SECONDS | rate ROUNDS"
    )
    exit(2)
  }
} catch {
  say("error=\(error)")
  exit(1)
}

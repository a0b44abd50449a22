import Culprit
import Foundation
import NativeWork
import Synchronization

// blame-trials: stalls with known culprits, and judgements of Culprit's reports. Started by `tools/prove blame`, with
// options `name=value`:
//
//   trials, seed, threads, kinds (names, or "solid"), shortest and longest (milliseconds), divided (interval of trials
//   without a culprit), reports (a directory for reports' texts), save (a directory for .stall files)
//   spin: keeps a CPU busy until its standard input ends
//   list: prints the kinds
//
// Prints a line for each trial (`BlameJudgement`).

let options = Dictionary(
  CommandLine.arguments.dropFirst()
    .map { word in
      let parts = word.split(separator: "=", maxSplits: 1).map(String.init)
      return (parts[0], parts.count > 1 ? parts[1] : "")
    },
  uniquingKeysWith: { $1 }
)

func number(_ name: String, _ value: Int) -> Int { options[name].flatMap(Int.init) ?? value }

if options["list"] != nil {
  for kind in Kind.all { print(kind.name) }
} else if options["spin"] != nil {
  _ = startThread {
    var value = 1
    while true {
      for _ in 0..<100_000 { value = value &* 69_069 &+ 1 }
      keep(value)
    }
  }
  var byte: UInt8 = 0
  while read(0, &byte, 1) > 0 {}
} else {
  let all = Kind.all.flatMap(\.identifiers)
  precondition(Set(all).count == all.count, "two kinds share an identifier")
  var kinds = Kind.all
  if let names = options["kinds"], !names.isEmpty {
    let wanted = names == "solid" ? Kind.solid : names.split(separator: ",").map(String.init)
    kinds = wanted.compactMap { name in Kind.all.first { $0.name == name } }
    precondition(kinds.count == wanted.count && kinds.count > 3, "unknown kinds, or fewer than four")
  }
  let lengths = number("shortest", 1500)...number("longest", 2500)
  var lottery = Lottery(
    seed: UInt64(number("seed", 1)),
    kinds: kinds,
    lengths: lengths,
    dividedEvery: number("divided", 0)
  )
  let trials = (1...number("trials", 10)).map { lottery.draw($0) }
  try Session(trials, reports: options["reports"], directory: options["save"]).run(threads: number("threads", 2))
}

import CulpritOptions
import Judges

// culprit-soak: checks properties in many repetitions.

let table = OptionTable(
  usage: ["culprit-soak [OPTION]... SOAK..."],
  summary: "Tries over and over what must never go wrong. Prints a line \"name value unit\" for each figure.",
  options: [
    CommandOption("samples", letter: "n", argument: "COUNT", help: "how many stacks to take (1000000)"),
    CommandOption("seconds", argument: "COUNT", help: "how long sources are to be healthy (600)"),
    CommandOption("kills", argument: "COUNT", help: "how many services to kill (500)"),
    CommandOption("threads", argument: "COUNT", help: "how many threads make each kind of call (3)"),
    CommandOption(
      "signal",
      argument: "WHEN",
      help: "as-shipped: threads that run, when they compute; at-once: all, at once"
    ), CommandOption("seed", argument: "NUMBER", help: "what the threads do at random follows from it"),
  ],
  epilogue: """
    Soaks:
      observer   threads enter and leave system calls that a signal cuts short, while all of them are observed: does
                 any call return early, or with EINTR?
      sources    every kind of source is at work, and healthy, and some take 90 to 99 % of thresholds from 10 ms on: is any
                 of them reported that ends in time?
      blackbox-kills
                 services are killed at random moments, half of them in mid-stall: does the next launch say which, who
                 is to blame, and for how long it had lasted?
      blackbox-locks
                 services are killed while a thread holds a lock of the allocator, the loader, the C library or the Swift
                 runtime, or all threads of the pools are taken: does the next launch say what hung, and for how long?
      blackbox-cost
                 what is written while a stall lasts, and how often
      blackbox   all of these

    With --signal=at-once the observer interrupts calls on purpose. This control fails unless the callers notice it.

    Exit status: 0 nothing went wrong, 1 something did, 2 wrong usage.
    """
)

let soaks = ["observer", "sources", "blackbox", "blackbox-kills", "blackbox-locks", "blackbox-cost"]
printFigures("culprit-soak", table, soaks) { parsed, figures in
  let when = parsed.value("signal") ?? "as-shipped"
  guard when == "as-shipped" || when == "at-once" else {
    throw UsageError("--signal takes as-shipped or at-once, not \"\(when)\"")
  }
  let soak = ObserverSoak(
    samplesMin: try parsed.number("samples", in: 1...1_000_000_000) ?? 1_000_000,
    threadsPerKind: try parsed.number("threads", in: 1...100) ?? 3,
    seed: UInt64(try parsed.number("seed", in: 0...Int.max) ?? Int.random(in: 0...Int.max))
  )
  let sources = SourcesSoak(seconds: try parsed.number("seconds", in: 1...1_000_000) ?? 600)
  let kills = try parsed.number("kills", in: 2...1_000_000)
  for name in parsed.operands.flatMap({ $0 == "blackbox" ? ["blackbox-kills", "blackbox-cost"] : [$0] }) {
    switch name {
    case "sources": try sources.run(figures)
    case "blackbox-kills": try BlackBoxSoak(kills: kills ?? 500, seed: soak.seed).run(figures)
    case "blackbox-locks": try LockSoak(kills: kills ?? 20).run(figures)
    case "blackbox-cost": try BlackBoxCost().run(figures)
    default: try soak.run(atOnce: when == "at-once", figures)
    }
  }
}

import CulpritOptions
import Judges

// culprit-soak: checks properties in many repetitions.

let table = OptionTable(
  usage: ["culprit-soak [OPTION]... SOAK..."],
  summary: "Repeats operations that must never fail. Prints a line \"name value unit\" for each figure.",
  options: [
    CommandOption("samples", letter: "n", argument: "COUNT", help: "number of stacks to capture (1000000)"),
    CommandOption("seconds", argument: "COUNT", help: "duration of the healthy work in sources (600)"),
    CommandOption("kills", argument: "COUNT", help: "number of services to kill (500; 20 for each lock)"),
    CommandOption("threads", argument: "COUNT", help: "number of threads for each kind of call (3)"),
    CommandOption(
      "signal",
      argument: "WHEN",
      help: "as-shipped: only computing threads; at-once: all threads, in any state"
    ), CommandOption("seed", argument: "NUMBER", help: "seed of all random choices"),
  ],
  epilogue: """
    Soaks:
      observer   observed threads enter and leave system calls that a signal can interrupt: does any call return early,
                 or with EINTR?
      sources    every kind of source does healthy work, some of it for 90 to 99 % of thresholds from 10 ms on: is any
                 work item reported that ends in time?
      blackbox-kills
                 services are killed at random times, half of the times during a stall: does the next launch report the
                 stall, its culprit and its duration?
      blackbox-locks
                 services are killed while a thread holds a lock of the allocator, the loader, the C library or the
                 Swift runtime, or while all threads of the pools are busy: does the next launch report the hang and its
                 duration?
      blackbox-cost
                 the number and size of writes during a stall
      blackbox   blackbox-kills and blackbox-cost

    With --signal=at-once the observer interrupts calls on purpose. This control fails unless the callers detect it.

    Exit status: 0 every figure is within its bound, 1 a figure is not, 2 wrong usage.
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

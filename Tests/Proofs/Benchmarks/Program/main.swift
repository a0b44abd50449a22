import CulpritOptions
import Glibc

// culprit-bench: the figures that Culprit claims, measured.

/// A benchmark prints figures, and may have options.
typealias Benchmark = (Figures, OptionTable.Arguments) throws -> Void

let benchmarks: [String: Benchmark] = [
  "blame": { try BlameTrials($0, $1).run() }, "blame-briefly": { try BlameTrials($0, $1).runBriefly() },
  "causes": { figures, _ in try benchCauses(figures) },
  "causes-briefly": { figures, _ in try benchCausesBriefly(figures) },
  "evidence": { figures, _ in try benchEvidence(figures) },
  "healthy": { figures, _ in try benchHealthy(figures) }, "idle": { figures, _ in try benchIdle(figures) },
  "metrics": { figures, _ in try benchMetrics(figures) },
  "observer": { figures, _ in try benchObserver(figures) },
  "observer-briefly": { figures, _ in try benchObserverBriefly(figures) },
  "reports": { figures, _ in try ReportsBench(figures).run() },
  "sources": { figures, _ in try benchSources(figures) },
  "sources-briefly": { figures, _ in try benchSourcesBriefly(figures) },
  "symbols": { figures, _ in try benchSymbols(figures) }, "tasks": { figures, _ in try benchTasks(figures) },
  "tasks-briefly": { figures, _ in try benchTasksBriefly(figures) },
  "threads": { figures, _ in try benchThreads(figures) },
]

let table = OptionTable(
  usage: ["tools/bench [OPTION]... NAME..."],
  summary: "Measures what Culprit claims. Prints a line \"name value unit\" for each figure.",
  options: BlameTrials.options,
  epilogue: """
    Benchmarks:
      blame     600 random stalls of more than forty kinds of work: is the function that took most of each named, and is
                what is said of it right? blame-briefly: a dozen of them
      causes    140 stalls in C, C++ and Swift whose causes are known: are these told, alone and beside four busy
                processes? causes-briefly: some of them, alone
      evidence  what reading takes that tells why a blocked thread waits
      healthy   what marking a work item costs
      idle      what a watchdog costs a service that does nothing
      metrics   what counting a probe costs, and what the metrics as values and as text
      observer  what taking stacks does to the threads whose they are, and to others; observer-briefly: without the
                figures that take minutes
      reports   what text, pages and exports of 1,000,000 samples take, beside go tool pprof and flamegraph.pl
      sources   what watching costs each kind of work, and how late the watchdog is; sources-briefly: in seconds
      symbols   names, files, lines and inlined calls beside those of llvm-symbolizer, and what they cost
      tasks     Swift's pool: is what holds its threads named, is nothing else, and what does looking at them cost;
                tasks-briefly: in a minute
      threads   what capturing each of 2,000 threads takes

    Example:
      $ tools/bench healthy
      # x86_64, 2 processors, …
      healthy.pair_ns 12.1 ns
      …

    Exit status: 0 every figure is within its bound, 1 one is not, 2 wrong usage.
    """
)

let output = CommandOutput(command: "culprit-bench")

do {
  let parsed = try table.parse(CommandLine.arguments.dropFirst())
  if parsed.has("help") || parsed.operands.isEmpty {
    output.print(table.help())
    exit(parsed.has("help") ? 0 : 2)
  }
  for name in parsed.operands where benchmarks[name] == nil {
    throw UsageError("there is no benchmark \"\(name)\"; there are \(benchmarks.keys.sorted().joined(separator: ", "))")
  }
  let figures = Figures(output: output)
  output.print("# \(machineDescription())\n")
  for name in parsed.operands { try benchmarks[name]?(figures, parsed) }
  exit(figures.allHold ? 0 : 1)
} catch let error as UsageError {
  output.usage(error)
} catch {
  output.error("\(error)")
  exit(1)
}

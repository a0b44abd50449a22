import CulpritOptions
import Judges

// culprit-bench: measures the figures that Culprit claims.

typealias Benchmark = (Figures, OptionTable.Arguments) throws -> Void

let benchmarks: [String: Benchmark] = [
  "blame": { try BlameTrials($0, $1).run(isBrief: $1.has("brief")) },
  "causes": { try benchCauses($0, isBrief: $1.has("brief")) },
  "evidence": { figures, _ in try benchEvidence(figures) },
  "healthy": { figures, _ in try benchHealthy(figures) }, "idle": { figures, _ in try benchIdle(figures) },
  "metrics": { figures, _ in try benchMetrics(figures) },
  "observer": { try benchObserver($0, isBrief: $1.has("brief")) },
  "reports": { figures, _ in try ReportsBench(figures).run() },
  "sources": { try benchSources($0, isBrief: $1.has("brief")) },
  "symbols": { figures, _ in try benchSymbols(figures) },
  "tasks": { try benchTasks($0, isBrief: $1.has("brief")) },
  "threads": { figures, _ in try benchThreads(figures) },
]

let table = OptionTable(
  usage: ["culprit-bench [OPTION]... NAME..."],
  summary: "Measures the figures that Culprit claims. Prints a line \"name value unit\" for each.",
  options: [
    CommandOption(
      "brief",
      help:
        "blame, causes, observer, sources, tasks: few trials, in this program's build; for verdicts, not for times"
    )
  ] + BlameTrials.options,
  epilogue: """
    Benchmarks:
      blame     600 random stalls of more than forty kinds of work: does each report name the function that took most
                of the time, and are its other claims right?
      causes    stalls in C, C++ and Swift with known causes, idle and with four busy processes: do the reports name the
                causes?
      evidence  the cost of reading the cause of a blocked thread's wait
      healthy   the cost of marking a work item
      idle      the cost of a watchdog in an idle service
      metrics   the cost of counting a probe, and of metrics as values and as text
      observer  the effect of stack captures on the captured threads and on others
      reports   text, pages and exports of 1,000,000 samples, compared with go tool pprof and flamegraph.pl
      sources   the cost of watching each kind of work, and the delay of reports
      symbols   names, files, lines and inlined calls compared with llvm-symbolizer, and their cost
      tasks     Swift's pool: do reports name the work that holds its threads, and nothing else? And the cost
      threads   the cost of capturing each of 2,000 threads

    Exit status: 0 every figure is within its bound, 1 a figure is not, 2 wrong usage.
    """
)

printFigures("culprit-bench", table, benchmarks.keys.sorted()) { parsed, figures in
  for name in parsed.operands { try benchmarks[name]?(figures, parsed) }
}

import CommandLineOptions
import Glibc

// culprit-bench: the figures that Culprit claims, measured.

let benchmarks: [String: (Figures) throws -> Void] = [
  "blame": benchBlame, "healthy": benchHealthy, "idle": benchIdle,
  "observer": benchObserver, "observer-briefly": benchObserverBriefly,
  "sources": benchSources, "sources-briefly": benchSourcesBriefly,
  "symbols": benchSymbols,
]

let table = OptionTable(
  usage: ["tools/bench NAME..."],
  summary: "Measures what Culprit claims. Prints a line \"name value unit\" for each figure.",
  options: [],
  epilogue: """
    Benchmarks:
      blame     60 random stalls: is the function that took most of each named?
      healthy   what marking a unit of work costs
      idle      what a watchdog costs a service that does nothing
      observer  what taking stacks does to the threads whose they are, and to others; observer-briefly: without the
                figures that take minutes
      sources   what watching costs each kind of work, and how late the watchdog is; sources-briefly: in seconds
      symbols   names, files, lines and inlined calls beside those of llvm-symbolizer, and what they cost

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
    output.print(table.help)
    exit(parsed.has("help") ? 0 : 2)
  }
  for name in parsed.operands where benchmarks[name] == nil {
    throw UsageError("there is no benchmark \"\(name)\"; there are \(benchmarks.keys.sorted().joined(separator: ", "))")
  }
  let figures = Figures(output: output)
  output.print("# \(machineDescription())\n")
  for name in parsed.operands { try benchmarks[name]?(figures) }
  exit(figures.allHold ? 0 : 1)
} catch let error as UsageError {
  output.usage(error)
} catch {
  output.error("\(error)")
  exit(1)
}

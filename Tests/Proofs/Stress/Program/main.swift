import CulpritOptions
import Glibc
import Judges
import StressHarm

// culprit-stress: a service under random harm, whose stalls are named all the same.

let table = OptionTable(
  usage: ["culprit-stress [OPTION]..."],
  summary: "Harms a service at random and stalls it in between. Prints a line \"name value unit\" for each figure.",
  options: [
    CommandOption("seconds", argument: "COUNT", help: "for how long (3600)"),
    CommandOption("seed", argument: "NUMBER", help: "what is done at random follows from it"),
    CommandOption("without", argument: "ACT,…", help: "harm that is not done; the names are those of the remarks"),
    CommandOption(
      "with",
      argument: "ACT,…",
      help: "harm that is the test's own fault, and must be counted: \(Harm.faults.joined(separator: ", "))"
    ),
    CommandOption("step-clock", help: "also step the machine's clock by up to a day, for up to 0.3 s each time"),
    CommandOption("service", argument: "DIRECTORY", help: "be the service; for the command itself"),
  ],
  epilogue: """
    Example:
      $ culprit-stress --seconds=20
      # seed 4711
      …
      harm.stalls 22 stalls
      harm.named 22 stalls
      harm.false_reports 0 reports
      harm.service_errors 0 errors

    Exit status: 0 nothing went wrong and at least 99 % of the stalls were named, 1 otherwise, 2 wrong usage.
    """
)

let output = CommandOutput(command: "culprit-stress")

do {
  let parsed = try table.parse(CommandLine.arguments.dropFirst())
  if parsed.has("help") {
    output.print(table.help())
    exit(0)
  }
  guard parsed.operands.isEmpty else {
    throw UsageError("there are no operands, but \"\(parsed.operands[0])\" was given")
  }
  let seconds = try parsed.number("seconds", in: 1...1_000_000) ?? 3600
  let seed = UInt64(try parsed.number("seed", in: 0...Int.max) ?? Int.random(in: 0...999_999))
  func acts(_ option: String, of all: [String]) throws -> Set<String> {
    let named = Set((parsed.value(option) ?? "").split(separator: ",").map(String.init))
    guard let unknown = named.subtracting(all).first else { return named }
    throw UsageError("there is no harm \"\(unknown)\" for --\(option); there are \(all.joined(separator: ", "))")
  }
  var without = try acts("without", of: Harm.names + Supervisor.names)
  let faults = try acts("with", of: Harm.faults)
  if let directory = parsed.value("service") {
    stress_install_handlers()
    guard let shared = stress_share(directory + "/shared") else { exit(1) }
    try Service(directory: directory, shared: shared).run(
      seconds: seconds,
      seed: seed,
      without: without,
      faults: faults
    )
    exit(0)
  }
  let figures = Figures(output: output)
  figures.note(machineDescription())
  // The clock is the whole machine's.
  if !parsed.has("step-clock") { without.insert("clock") }
  try Supervisor(seconds: seconds, seed: seed, without: without, faults: faults, figures).run()
  exit(figures.allHold ? 0 : 1)
} catch let error as UsageError {
  output.usage(error)
} catch {
  output.error("\(error)")
  exit(1)
}

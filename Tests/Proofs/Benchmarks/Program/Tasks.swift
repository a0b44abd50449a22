import ChildProcesses
import Glibc

/// Tasks on Swift's pool: whether what holds its threads is named, and what looking at them costs.
func benchTasks(_ figures: Figures) throws {
  try benchTaskTrials(figures, count: 60)
  try benchSections(figures, count: 60)
  try benchChains(figures, builds: ["debug", "release"], count: 150)
  try benchHealthyTasks(figures, seconds: 600)
  try benchTaskCosts(figures)
}

/// The same, in a minute, without the figures that say little in so short a time.
func benchTasksBriefly(_ figures: Figures) throws {
  try benchTaskTrials(figures, count: 6)
  try benchSections(figures, count: 10)
  try benchChains(figures, builds: [nil], count: 20)
  try benchHealthyTasks(figures, seconds: 10)
}

private func benchTaskTrials(_ figures: Figures, count: Int) throws {
  for (name, processors, which) in [("of_two", 2, "all"), ("of_four", 4, "all"), ("one_of_four", 4, "one")] {
    let facts = try facts(processors, ["trials", which, "\(count)", "17"], figures)
    figures.print("tasks.trials.\(name)", Double(count), "count")
    let named = Double(try number("named", facts))
    figures.print("tasks.culprit_named.\(name)", named, "count", in: Double(count)...Double(count))
  }
}

private func benchSections(_ figures: Figures, count: Int) throws {
  let facts = try facts(4, ["sections", "\(count)", "17"], figures)
  figures.print("tasks.trials.sections", Double(count), "count")
  let named = Double(try number("named", facts))
  figures.print("tasks.culprit_named.sections", named, "count", in: Double(count)...Double(count))
}

/// Random chains of async functions, which know who has called whom; `nil` stands for the build of this program.
private func benchChains(_ figures: Figures, builds: [String?], count: Int) throws {
  var (chains, complete, wrong) = (0.0, 0.0, 0.0)
  for build in builds {
    let facts = try facts(4, ["chains", "\(count)", "11"], figures, build: build)
    chains += try number("chains", facts)
    complete += try number("complete", facts)
    wrong += try number("wrong", facts)
  }
  figures.print("tasks.chains", chains, "count", in: Double(builds.count * count)...Double(builds.count * count))
  figures.print("tasks.chains_complete", 100 * complete / chains, "%", in: 95...100)
  figures.print("tasks.chains_wrong", wrong, "count", in: 0...0)
}

private func benchHealthyTasks(_ figures: Figures, seconds: Int) throws {
  let facts = try facts(4, ["healthy", "\(seconds)", "29"], figures)
  figures.print("tasks.healthy_tasks", try number("tasks", facts), "count")
  figures.print("tasks.false_reports", try number("reports", facts), "count", in: 0...0)
}

private func benchTaskCosts(_ figures: Figures) throws {
  let cost = try facts(64, ["cost", "20"], figures)
  figures.print("tasks.cost_64", 100 * (try number("used", cost)), "percent of a processor", in: 0...0.5)
  let rates = try facts(4, ["rate", "41"], figures).compactMap {
    $0.hasPrefix("ratio=") ? Double($0.dropFirst(6)) : nil
  }
  figures.print("tasks.rate", median(rates), "of the unwatched rate", in: 0.99...2)
}

/// What `tasks-process`, as it was built for `build`, says with so many threads in the pool, a line for each fact.
private func facts(_ processors: Int, _ words: [String], _ figures: Figures, build: String? = nil) throws -> [String] {
  let directory = CommandLine.arguments.first.map { String($0[..<($0.lastIndex(of: "/") ?? $0.startIndex)]) } ?? "."
  let program = directory + (build.map { "/../\($0)" } ?? "") + "/tasks-process"
  var environment = ["PROCESSORS=\(processors)"]
  for name in ["PATH", "HOME"] {
    if let value = getenv(name) { environment.append("\(name)=\(String(cString: value))") }
  }
  let pipe = try Spawn.pipe()
  let process = try Spawn.process(program, [program] + words, environment: environment, output: pipe.writing)
  close(pipe.writing)
  let lines = String(decoding: Spawn.readAll(pipe.reading), as: UTF8.self).split(separator: "\n").map(String.init)
  close(pipe.reading)
  let status = Spawn.end(process)
  guard status == 0 else { throw TasksError(description: "\(words): status \(status ?? -1): \(lines.suffix(3))") }
  for line in lines where line.hasPrefix("trial=") || line.hasPrefix("report=") || line.hasPrefix("limitations=") {
    figures.note(line)
  }
  return lines
}

private func number(_ name: String, _ facts: [String]) throws -> Double {
  guard
    let value = facts.lazy.compactMap({ $0.hasPrefix(name + "=") ? Double($0.dropFirst(name.count + 1)) : nil }).first
  else { throw TasksError(description: "no \(name) in \(facts.suffix(5))") }
  return value
}

private struct TasksError: Error, CustomStringConvertible { var description: String }

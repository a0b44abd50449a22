import Judges

/// Judges reports of stalls in Swift's pool and in sections of tasks, chains of callers, and healthy load. Measures the
/// cost, if not brief.
func benchTasks(_ figures: Figures, isBrief: Bool) throws {
  try benchTaskTrials(figures, count: isBrief ? 4 : 60)
  try benchSections(figures, count: isBrief ? 8 : 64)
  // Chains differ between debug and optimized code; `nil` is the build of this program.
  try benchChains(figures, builds: isBrief ? [nil] : ["debug", "release"], count: isBrief ? 20 : 150)
  try benchHealthyTasks(figures, seconds: isBrief ? 10 : 600)
  if !isBrief { try benchTaskCosts(figures) }
}

private func benchTaskTrials(_ figures: Figures, count: Int) throws {
  for (name, processors, which) in [("of_two", 2, "all"), ("of_four", 4, "all"), ("one_of_four", 4, "one")] {
    let facts = try taskFacts(processors, ["trials", which, "\(count)", "17"], figures)
    figures.print("tasks.trials.\(name)", Double(count), "count")
    let named = Double(try factNumber("named", facts))
    figures.print("tasks.culprit_named.\(name)", named, "count", in: Double(count)...Double(count))
  }
}

private func benchSections(_ figures: Figures, count: Int) throws {
  let facts = try taskFacts(4, ["sections", "\(count)", "17"], figures)
  figures.print("tasks.trials.sections", Double(count), "count")
  let named = Double(try factNumber("named", facts))
  figures.print("tasks.culprit_named.sections", named, "count", in: Double(count)...Double(count))
}

/// Judges random chains of async functions with known callers. `nil` is the build of this program.
private func benchChains(_ figures: Figures, builds: [String?], count: Int) throws {
  var (chains, complete, wrong) = (0.0, 0.0, 0.0)
  for build in builds {
    let facts = try taskFacts(4, ["chains", "\(count)", "11"], figures, build: build)
    chains += try factNumber("chains", facts)
    complete += try factNumber("complete", facts)
    wrong += try factNumber("wrong", facts)
  }
  figures.print("tasks.chains", chains, "count", in: Double(builds.count * count)...Double(builds.count * count))
  figures.print("tasks.chains_complete", 100 * complete / chains, "%", in: 95...100)
  figures.print("tasks.chains_wrong", wrong, "count", in: 0...0)
}

private func benchHealthyTasks(_ figures: Figures, seconds: Int) throws {
  let facts = try taskFacts(4, ["healthy", "\(seconds)", "29"], figures)
  figures.print("tasks.healthy_tasks", try factNumber("tasks", facts), "count")
  figures.print("tasks.false_reports", try factNumber("reports", facts), "count", in: 0...0)
}

private func benchTaskCosts(_ figures: Figures) throws {
  let cost = try taskFacts(64, ["cost", "20"], figures)
  figures.print("tasks.cost_64", 100 * (try factNumber("used", cost)), "percent of a processor", in: 0...0.5)
  let rates = try taskFacts(4, ["rate", "41"], figures).compactMap {
    $0.hasPrefix("ratio=") ? Double($0.dropFirst(6)) : nil
  }
  figures.print("tasks.rate", median(rates), "of the unwatched rate", in: 0.99...2)
}

/// Returns the output of `tasks-process` as built for `build`, with `processors` threads in the pool.
private func taskFacts(_ processors: Int, _ words: [String], _ figures: Figures, build: String? = nil) throws
  -> [String]
{
  try programFacts("tasks-process", words, figures, environment: ["PROCESSORS=\(processors)"], build: build)
}

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

/// Random chains of async functions, which know who has called whom; `nil` stands for the build of this program.
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

/// What `tasks-process`, as it was built for `build`, says with so many threads in the pool.
private func taskFacts(_ processors: Int, _ words: [String], _ figures: Figures, build: String? = nil) throws
  -> [String]
{
  try programFacts("tasks-process", words, figures, environment: ["PROCESSORS=\(processors)"], build: build)
}

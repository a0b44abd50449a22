/// Stalls whose causes are known: whether the reports tell them, alone and beside four busy processes.
func benchCauses(_ figures: Figures) throws {
  for (name, busy) in [("causes", 0), ("causes.busy", 4)] {
    try tell(name, programFacts("causes-process", ["judge", "\(busy)"], figures), figures)
  }
}

/// The same of the first for each cause, alone.
func benchCausesBriefly(_ figures: Figures) throws {
  try tell("causes", programFacts("causes-process", ["judge", "0", "brief"], figures), figures)
}

private func tell(_ name: String, _ facts: [String], _ figures: Figures) throws {
  let programs = try factNumber("programs", facts)
  figures.print("\(name).programs", programs, "count", in: 1...10_000)
  figures.print("\(name).right", 100 * (try factNumber("right", facts)) / programs, "%", in: 95...100)
  figures.print("\(name).culprit_right", 100 * (try factNumber("culprit_right", facts)) / programs, "%", in: 100...100)
  let holders = try factNumber("holders", facts)
  figures.print(
    "\(name).holder_right",
    100 * (try factNumber("holders_right", facts)) / max(1, holders),
    "%",
    in: 95...100
  )
  figures.print("\(name).false_deadlocks", try factNumber("false_deadlocks", facts), "count", in: 0...0)
  figures.print("\(name).wrong_sums", try factNumber("wrong_sums", facts), "count", in: 0...0)
  figures.print("\(name).unavailable", try factNumber("unavailable", facts), "count")
}

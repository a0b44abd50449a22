import Judges

/// Runs stalls with known causes, idle and with four busy processes. A brief run has one stall of each cause, idle.
func benchCauses(_ figures: Figures, isBrief: Bool) throws {
  for (name, busy) in isBrief ? [("causes", 0)] : [("causes", 0), ("causes.busy", 4)] {
    let words = ["judge", "\(busy)"] + (isBrief ? ["brief"] : [])
    try printFigures(name, programFacts("causes-process", words, figures), figures)
  }
}

private func printFigures(_ name: String, _ facts: [String], _ figures: Figures) throws {
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
  figures.print("\(name).unsound", try factNumber("unsound", facts), "count", in: 0...0)
  figures.print("\(name).unavailable", try factNumber("unavailable", facts), "count")
}

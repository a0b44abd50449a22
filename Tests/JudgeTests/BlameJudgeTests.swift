import CulpritReports
import Judges
import Testing

/// Judgements of made-up reports about a trial in which `packOrders` computed for 700 ms, then `sortOrders` for 300 ms.
@Suite struct BlameJudgeTests {
  private func part(_ name: String, _ range: Range<UInt64>, running: Bool = true) -> BlameTruth.Part {
    let (begin, end) = (range.lowerBound * 1_000_000, range.upperBound * 1_000_000)
    return BlameTruth.Part(
      name: name,
      identifiers: [name, name + "Helper"],
      begin: begin,
      end: end,
      running: running ? end - begin : 0,
      delayed: 0
    )
  }

  /// The verdict on `report`, parsed from the line that the trial's program prints.
  private func verdict(
    _ report: StallReport?,
    first: UInt64 = 700,
    running: Bool = true,
    dependency: String? = nil
  ) throws -> BlameVerdict {
    let truth = BlameTruth(
      number: 1,
      parts: [part("packOrders", 0..<first, running: running), part("sortOrders", first..<1000)],
      isDivided: false,
      absent: ["paintWalls"],
      dependency: dependency
    )
    return try #require(BlameVerdict(BlameJudgement(truth, report: report).line, place: "here"))
  }

  private let right = [("packOrders", 35), ("sortOrders", 15)]

  @Test func acceptsRightReport() throws {
    let verdict = try verdict(madeUpReport(right))
    #expect(verdict.isRight && verdict.verdict == "named", "\(verdict.faults)")
  }

  @Test func rejectsWrongCulprit() throws {
    let verdict = try verdict(madeUpReport([("sortOrders", 50)]))
    #expect(verdict.verdict == "other" && !verdict.isRight)
  }

  @Test func rejectsInventedFunction() throws {
    let verdict = try verdict(madeUpReport([("packOrders", 35), ("sortOrders paintWalls", 15)]))
    #expect(verdict.invented == "paintWalls" && !verdict.isRight)
  }

  @Test func rejectsReportWithoutVerdict() throws {
    let verdict = try verdict(madeUpReport([("", 50)]))
    #expect(verdict.verdict == "none" && !verdict.isRight)
  }

  @Test func rejectsMissingReport() throws {
    let verdict = try verdict(nil)
    #expect(verdict.verdict == "unreported" && !verdict.isRight)
  }

  @Test func ignoresDelayedTrial() throws {
    let verdict = try verdict(madeUpReport(right), first: 400)
    #expect(verdict.isVoid && verdict.isRight)
  }

  @Test func rejectsWrongShareAndState() throws {
    let share = try verdict(madeUpReport([("packOrders", 45), ("sortOrders", 5)]))
    #expect(share.faults.count == 1 && share.faults[0].hasPrefix("the share is "), "\(share.faults)")
    let state = try verdict(madeUpReport(right), running: false)
    #expect(state.isStateRight == false && !state.isRight)
  }

  @Test func rejectsLastStackOfCulprit() throws {
    let report = madeUpReport([("packOrders", 34), ("sortOrders", 15), ("packOrders packOrdersHelper", 1)])
    #expect(try verdict(report).isLastStackRight, "\(report)")
  }

  @Test func requiresNameOfDependency() throws {
    #expect(try verdict(madeUpReport(right), dependency: "Squeezer").isDependencyNamed == false)
    let report = madeUpReport([("packOrders Squeezer.squeeze", 35), ("sortOrders", 15)])
    let verdict = try verdict(report, dependency: "Squeezer")
    #expect(verdict.isDependencyNamed == true && verdict.verdict == "named", "\(report)")
  }

  /// The summary fails for each kind of fault, for missing reports, and if all trials are void.
  @Test func summaryFailsForEachFault() throws {
    func failures(_ verdicts: [BlameVerdict], missing: Int = 0) -> Set<String> {
      var failures: Set<String> = []
      let figures = Figures(write: { _ in }, complain: { failures.insert(String($0.prefix { $0 != " " })) })
      BlameSummary(verdicts, missing: missing).print(figures)
      #expect(figures.allHold == failures.isEmpty)
      return failures
    }
    let good = try verdict(madeUpReport(right))
    #expect(failures([good]) == [])
    #expect(failures([good], missing: 1) == ["blame.missing"])
    #expect(failures([try verdict(madeUpReport(right), first: 400)]) == ["blame.culprit_named"])
    #expect(failures([good, try verdict(madeUpReport([("", 50)]))]).contains("blame.no_verdict"))
    let invented = try verdict(madeUpReport([("packOrders", 35), ("sortOrders paintWalls", 15)]))
    #expect(failures([good, invented]) == ["blame.invented"])
  }
}

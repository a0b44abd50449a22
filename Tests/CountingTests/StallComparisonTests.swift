import CulpritReports
import Testing

@testable import CulpritCounting

@Suite struct StallComparisonTests {
  private func side(_ stalls: [(String, Double)], hours: Int? = nil) -> StallComparison.Side {
    let counted = stalls.enumerated().map { CountingTests.counted("\($0.offset)", $0.element.0, seconds: $0.element.1) }
    return StallComparison.Side(counted, watched: hours.map { .seconds(3600 * $0) })
  }

  private func names(_ comparison: StallComparison) -> [String] {
    comparison.entries.map { "\($0.change) \($0.newest?.culprit ?? "")" }
  }

  /// Entries are ordered from the largest increase to the largest decrease.
  @Test func classifiesChangesByTime() {
    let before = side([("gone()", 9), ("worse()", 1), ("better()", 5), ("better()", 1), ("same()", 2)])
    let after = side([("new()", 3), ("worse()", 2), ("worse()", 4), ("better()", 5), ("same()", 1), ("same()", 1)])
    let comparison = StallComparison(before, after)
    #expect(names(comparison) == ["worse worse()", "new new()", "same same()", "better better()", "gone gone()"])
    #expect(comparison.entries.map(\.difference) == [5, 3, 0, -1, -9].map { .seconds($0) })
    #expect(comparison.entries.map { $0.before?.count } == [1, nil, 1, 2, 1])
    #expect(comparison.entries.map { $0.after?.count } == [2, 1, 2, 1, nil])
    #expect(!comparison.isPerHour)
  }

  /// Twice the time in four times the hours is an improvement.
  @Test func comparesRatesWhenKnown() {
    let (before, after) = ([("load()", 6.0)], [("load()", 12.0)])
    let rates = StallComparison(side(before, hours: 1), side(after, hours: 4))
    #expect(rates.isPerHour && names(rates) == ["better load()"])
    #expect(rates.entries[0].difference == .seconds(-3))
    for (left, right) in [(1, nil), (nil, 4), (0, 4)] as [(Int?, Int?)] {
      let whole = StallComparison(side(before, hours: left), side(after, hours: right))
      #expect(!whole.isPerHour && names(whole) == ["worse load()"])
    }
  }

  /// If totals are not compared per hour, the text states the reason.
  @Test(
    arguments: [
      (nil, nil, "of before and after"), (nil, 4, "of before"), (1, nil, "of after"), (0, 4, "of before"), (1, 4, nil),
    ] as [(Int?, Int?, String?)]
  ) func explainsMissingRates(left: Int?, right: Int?, unknown: String?) {
    let stalls = [("load()", 6.0)]
    let text = StallComparison(side(stalls, hours: left), side(stalls, hours: right)).text()
    let remark = "\ntotals as they are, not by the hour: for how long services were watched is not known "
    #expect(
      text.contains(remark) == (unknown != nil) && text.contains(remark + (unknown ?? "") + "\n") == (unknown != nil)
    )
    // Without stalls, no remark is printed.
    #expect(!StallComparison(side([]), side([])).text().contains("totals"))
  }

  @Test func findsNoChangesAgainstItself() {
    let all = side([("load()", 6), ("store()", 2)], hours: 2)
    #expect(StallComparison(all, all).entries.allSatisfy { $0.change == .same && $0.difference == .zero })
    #expect(StallComparison(side([]), side([])).entries.isEmpty)
  }

  /// A limited list has the entries that changed most in either direction.
  @Test func listsLargestChanges() {
    let text = StallComparison(side([("gone()", 9), ("same()", 1)]), side([("new()", 4), ("same()", 1)], hours: 3))
      .text(limit: 2)
    let lines = text.split(separator: "\n")
    #expect(lines.count == 7, "\(text)")
    #expect(lines[0] == "before: 2 stalls of 2 kinds, 10.00 s")
    #expect(lines[1] == "after:  2 stalls of 2 kinds, 5.00 s, in 3 h 0 min of watching")
    #expect(lines[2].hasSuffix("is not known of before"))
    #expect(lines[4].hasPrefix("new     +4.00 s  - → 1  - → 4.00 s  ") && lines[4].contains("new() (Store.swift:1)"))
    #expect(lines[5].hasPrefix("gone    −9.00 s  1 → -  9.00 s → -  "))
    #expect(lines[6] == "… and 1 that changed less")
  }
}

import CulpritReports
import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import Culprit

/// A section within the turn of a loop: one stall, seen twice.
@Suite struct OverlapTests {
  private func known(_ id: String, _ range: Range<UInt64>, thread: Int32 = 7, isOver: Bool = true) -> Overlaps.Known {
    Overlaps.Known(
      reportID: id,
      threadID: thread,
      source: WatchedSource(kind: .section, name: id),
      began: range.lowerBound,
      ended: isOver ? range.upperBound : nil
    )
  }

  @Test func stallsOfOneThreadAtOneTimeAreTold() {
    var overlaps = Overlaps()
    overlaps.remember(known("early", 0..<50))
    overlaps.remember(known("inner", 100..<180))
    let others = [known("going", 150..<0x1000, isOver: false), known("elsewhere", 0..<500, thread: 8)]
    let notes = overlaps.notes(of: known("outer", 60..<200), beside: others, now: 900)
    #expect(
      notes.map(\.text) == ["inner", "going"] && notes.map(\.title) == ["section \"inner\"", "section \"going\""]
    )
    #expect(notes.map(\.time) == [.nanoseconds(80), .nanoseconds(50)])
    // Of work that no single thread did nothing is known.
    #expect(overlaps.notes(of: known("outer", 60..<200, thread: 0), beside: [], now: 900).isEmpty)
    // A stall does not overlap with itself.
    #expect(overlaps.notes(of: known("inner", 100..<180), beside: [], now: 900).isEmpty)
  }

  @Test func onlyTheLastAreRemembered() {
    var overlaps = Overlaps()
    for number in 0..<100 { overlaps.remember(known("\(number)", 0..<10)) }
    let notes = overlaps.notes(of: known("x", 0..<10), beside: [], now: 10)
    #expect(notes.count == 32 && notes.last?.text == "99")
  }

  /// Both are reported with all that each alone would have, and each says of the other.
  @Test(arguments: ["nested", "nested-computing"])
  func bothViewsAreWholeAndKnowOfEachOther(scenario: String) throws {
    let child = try ChildProcess(ChildProcess.built("waiting-process"), [scenario, "json"])
    let reports = try child.output.split(separator: "\n")
      .map { try JSONDecoder().decode(StallReport.self, from: Data($0.utf8)) }
    try #require(reports.count == 2, "\(child)")
    for (one, other) in [(reports[0], reports[1]), (reports[1], reports[0])] {
      let note = try #require(one.notes.last { $0.kind == .overlap }, "\(one)")
      #expect(note.text == other.id && note.title == other.source.description)
      #expect(note.time > .seconds(1) && one.metadata["culprit.stall.overlaps"] == other.id)
      let words = one.text(width: 400)
      #expect(words.contains("OVERLAP   \(other.source) was stuck on this thread as well, for "))
      // Neither has fewer samples for the other one's sake.
      #expect(3 * one.evidence.stackCount > 2 * other.evidence.stackCount, "\(one)")
      #expect(one.culprit?.share ?? 0 > 0.9)
    }
    #expect(Set(reports.map(\.source.kind)) == [.loop, .section])
    // Looks at the thread are in both, from when the later one is suspected; but for one or the other that came just when one of
    // them began to be followed or had ended. Of samples that each takes on its own hardly any would be of the same moment.
    let ages = reports.map { $0.samples.map(\.age) }
    let offsets = ages[0].flatMap { age in ages[1].map { age - $0 } }
    let shared = offsets.map { offset in
      ages[1].count { age in ages[0].contains { abs(($0 - offset - age) / .milliseconds(1)) < 1 } }
    }
    #expect(Double(shared.max() ?? 0) > 0.8 * Double(max(ages[0].count, ages[1].count)), "\(ages)")
  }
}

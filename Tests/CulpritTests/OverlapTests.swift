import CulpritReports
import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import Culprit

/// A section within the turn of a loop: one stall, seen twice.
@Suite struct OverlapTests {
  private func known(
    _ id: String,
    _ range: Range<UInt64>,
    worker: Overlaps.Worker? = .thread(7),
    isOver: Bool = true
  ) -> Overlaps.Known {
    Overlaps.Known(
      reportID: id,
      worker: worker,
      source: WatchedSource(kind: .section, name: id),
      began: range.lowerBound,
      ended: isOver ? range.upperBound : nil
    )
  }

  @Test func stallsOfOneThreadAtOneTimeAreTold() {
    var overlaps = Overlaps()
    overlaps.remember(known("early", 0..<50))
    overlaps.remember(known("inner", 100..<180))
    let others = [known("going", 150..<0x1000, isOver: false), known("elsewhere", 0..<500, worker: .thread(8))]
    let notes = overlaps.notes(of: known("outer", 60..<200), beside: others, now: 900)
    #expect(
      notes.map(\.text) == ["inner", "going"] && notes.map(\.title) == ["section \"inner\"", "section \"going\""]
    )
    #expect(notes.map(\.time) == [.nanoseconds(80), .nanoseconds(50)])
    // Of work that no single thread did nothing is known.
    #expect(overlaps.notes(of: known("outer", 60..<200, worker: nil), beside: [], now: 900).isEmpty)
    // A task is another worker than the thread that runs it, and than a later one at its place.
    overlaps.remember(known("task", 0..<500, worker: .task(0x700, 3)))
    func beside(_ worker: Overlaps.Worker) -> [String] {
      overlaps.notes(of: known("outer", 60..<200, worker: worker), beside: [], now: 900).map(\.text)
    }
    #expect(beside(.task(0x700, 3)) == ["task"] && beside(.task(0x700, 4)).isEmpty && beside(.thread(8)).isEmpty)
    // A stall does not overlap with itself.
    #expect(overlaps.notes(of: known("inner", 100..<180), beside: [], now: 900).isEmpty)
  }

  @Test func onlyTheLastAreRemembered() {
    var overlaps = Overlaps()
    for number in 0..<100 { overlaps.remember(known("\(number)", 0..<10)) }
    let notes = overlaps.notes(of: known("x", 0..<10), beside: [], now: 10)
    #expect(notes.count == 32 && notes.last?.text == "99")
  }

  /// The sections of one task are one stall, on whatever thread it runs; who waits for it on another thread is not.
  @Test func sectionsOfOneTaskKnowOfEachOther() throws {
    let child = try ChildProcess(ChildProcess.built("waiting-process"), ["nested-task", "json"])
    let reports = try child.output.split(separator: "\n")
      .map { try JSONDecoder().decode(StallReport.self, from: Data($0.utf8)) }
    let sections = reports.filter { $0.source.kind == .section }
    try #require(sections.count == 2, "\(child)")
    for (one, other) in [(sections[0], sections[1]), (sections[1], sections[0])] {
      #expect(Set(one.notes.filter { $0.kind == .overlap }.map(\.text)) == [other.id], "\(one)")
      #expect(one.culprit?.function.name == "rebuildIndex()", "\(one)")
    }
    #expect(reports.contains { $0.source.kind == .loop })
    for loop in reports where loop.source.kind == .loop { #expect(!loop.notes.contains { $0.kind == .overlap }) }
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
      #expect(words.contains("OVERLAP   \(other.source) was stuck at the same work, for "))
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

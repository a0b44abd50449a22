import CulpritReports
import CulpritStallRecord
import Foundation
import SimulatedClock
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct OverlapTests {
  private func known(
    _ id: String,
    _ range: Range<UInt64>,
    worker: ConcurrentStalls.Worker? = .thread(7),
    isOver: Bool = true
  ) -> ConcurrentStalls.Known {
    ConcurrentStalls.Known(
      reportID: id,
      worker: worker,
      source: WatchedSource(kind: .section, name: id),
      began: range.lowerBound,
      ended: isOver ? range.upperBound : nil
    )
  }

  @Test func notesOverlappingStalls() {
    var overlaps = ConcurrentStalls()
    overlaps.remember(known("early", 0..<50))
    overlaps.remember(known("inner", 100..<180))
    let others = [known("going", 150..<0x1000, isOver: false), known("elsewhere", 0..<500, worker: .thread(8))]
    let notes = overlaps.notes(of: known("outer", 60..<200), beside: others, now: 900)
    #expect(
      notes.map(\.text) == ["inner", "going"] && notes.map(\.title) == ["section \"inner\"", "section \"going\""]
    )
    #expect(notes.map(\.time) == [.nanoseconds(80), .nanoseconds(50)])
    #expect(overlaps.notes(of: known("outer", 60..<200, worker: nil), beside: [], now: 900).isEmpty)
    // A task must not match its thread or a later task at the same address.
    overlaps.remember(known("task", 0..<500, worker: .task(0x700, 3)))
    func beside(_ worker: ConcurrentStalls.Worker) -> [String] {
      overlaps.notes(of: known("outer", 60..<200, worker: worker), beside: [], now: 900).map(\.text)
    }
    #expect(beside(.task(0x700, 3)) == ["task"] && beside(.task(0x700, 4)).isEmpty && beside(.thread(8)).isEmpty)
    #expect(overlaps.notes(of: known("inner", 100..<180), beside: [], now: 900).isEmpty)
  }

  /// A job and a section of the job's task must be linked as overlapping.
  @Test func jobsContainTheSectionsOfTheirTasks() {
    func job(_ range: Range<UInt64>, thread: Int32) -> ConcurrentStalls.Known {
      var known = known("job", range, worker: .thread(thread))
      known.source = WatchedSource(kind: .job, name: "pool thread 1")
      known.labels = ["request 4711"]
      return known
    }
    var section = known("section", 0..<500, worker: .task(0x700, 3))
    (section.seen, section.labels) = ((7, 300), ["request 4711"])
    func kinds(_ job: ConcurrentStalls.Known) -> [StallNote.Kind] {
      ConcurrentStalls().notes(of: job, beside: [section], now: 900).map(\.kind)
        + ConcurrentStalls().notes(of: section, beside: [job], now: 900).map(\.kind)
    }
    #expect(kinds(job(100..<400, thread: 7)) == [.overlap, .overlap])
    // A job on another thread, or a later job on the thread, shares only the label.
    #expect(kinds(job(100..<400, thread: 8)) == [.sharedLabel, .sharedLabel])
    #expect(kinds(job(350..<400, thread: 7)) == [.sharedLabel, .sharedLabel])
  }

  @Test func notesStallsWithSameLabel() {
    var overlaps = ConcurrentStalls()
    func labelled(_ id: String, _ labels: Set<String>, worker: ConcurrentStalls.Worker? = nil) -> ConcurrentStalls.Known
    {
      var known = known(id, 0..<100, worker: worker)
      known.labels = labels
      return known
    }
    overlaps.remember(labelled("turn", ["request 4711", "request 4712"], worker: .thread(8)))
    overlaps.remember(labelled("other", ["request 4713"]))
    overlaps.remember(labelled("unlabelled", []))
    overlaps.remember(labelled("same", ["request 4711"], worker: .thread(7)))
    let one = labelled("section", ["request 4711"], worker: .thread(7))
    let notes = overlaps.notes(of: one, beside: [], now: 200)
    #expect(notes.map(\.text) == ["turn", "same"] && notes.map(\.kind) == [.sharedLabel, .overlap])
    #expect(overlaps.notes(of: labelled("section", []), beside: [], now: 200).isEmpty)
    // Thousands of stalls can share a label; five are noted.
    for number in 0..<9 { overlaps.remember(labelled("\(number)", ["request 4711"])) }
    #expect(overlaps.notes(of: one, beside: [], now: 200).count == 5)
  }

  @Test func notesWorkThatRanMeanwhile() {
    var overlaps = ConcurrentStalls()
    func labelled(
      _ label: String,
      _ began: UInt64,
      _ ended: UInt64? = nil,
      at addresses: [UInt64] = [1, 2],
      id: String? = nil
    ) -> ConcurrentStalls.Labelled {
      let frames = addresses.map { StackFrame.programCounter(RuntimeAddress($0)) }
      return .init(
        labels: [label],
        place: Storms.Place(Stack(frames: frames, end: .outermost)),
        reportID: id,
        began: began,
        ended: ended
      )
    }
    overlaps.remember(labelled("holder", 0, 180, id: "1-2"))
    overlaps.remember(labelled("waiting too", 100, 200, at: [7, 8, 6]))
    overlaps.remember(labelled("request", 100, 200))
    overlaps.remember(labelled("short", 100, 149))
    let one = labelled("request", 100, 200, at: [7, 8, 9])
    let notes = overlaps.meanwhile(one, beside: [labelled("suspect", 130)], now: 900)
    #expect(notes.map(\.title) == ["holder", "suspect"] && notes.map(\.text) == ["1-2", ""])
    #expect(notes.map(\.time) == [.nanoseconds(80), .nanoseconds(70)])
    // Work with equal labels is noted once, with the longest time.
    let holders = [labelled("holder", 50), labelled("holder", 120)]
    #expect(overlaps.meanwhile(one, beside: holders, now: 900).map(\.time) == [.nanoseconds(100)])
    let requests = (0..<9).map { labelled("\($0)", 50) }
    #expect(overlaps.meanwhile(one, beside: requests, now: 900).map(\.title) == ["0", "1", "2"])
  }

  @Test func remembersLatestStalls() {
    var overlaps = ConcurrentStalls()
    for number in 0..<100 { overlaps.remember(known("\(number)", 0..<10)) }
    let notes = overlaps.notes(of: known("x", 0..<10), beside: [], now: 10)
    #expect(notes.count == 32 && notes.last?.text == "99")
  }

  /// Two sections of a task overlap on all threads. A loop's turn that waits for the task does not.
  @Test(.ownThread) func sectionsOfOneTaskOverlap() throws {
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

  @Test(arguments: [false, true]) func bothReportsAreComplete(isComputing: Bool) throws {
    let configuration = Watchdog.Configuration(threshold: .milliseconds(400), interval: .milliseconds(50))
    let watchdog = try Watchdog(configuration)
    let found = Reports()
    watchdog.onStall { found.add($0) }
    let loop = try watchdog.watchLoop(named: "main")
    loop.withTurn {
      watchdog.withSection("render", threshold: .milliseconds(600)) {
        if isComputing { stallByComputing(for: .seconds(2)) } else { stallByWaiting(for: .seconds(2)) }
      }
    }
    watchdog.stopPatiently()
    let reports = found.all
    try #require(reports.count == 2, "\(reports)")
    for (one, other) in [(reports[0], reports[1]), (reports[1], reports[0])] {
      let note = try #require(one.notes.last { $0.kind == .overlap }, "\(one)")
      #expect(note.text == other.id && note.title == other.source.description)
      #expect(note.time == .seconds(2))
      #expect(one.metadata["culprit.stall.overlaps"] == other.id)
      #expect(one.text(width: 400).contains("OVERLAP   \(other.source) was stuck at the same work, for "))
      // On a busy machine, a computing thread might get no CPU before a simulated deadline.
      if !isComputing { #expect(one.culprit?.function.name == "stallByWaiting(for:)" && one.culprit?.share == 1) }
    }
    #expect(Set(reports.map(\.source.kind)) == [.loop, .section])
    // From the suspicion of the later stall on, both have all samples.
    let ages = reports.map { Set($0.samples.map(\.age)) }
    let common = ages[0].intersection(ages[1]).count
    #expect(common > 20 && common + 5 > max(ages[0].count, ages[1].count), "\(ages.map { $0.sorted() })")
  }
}

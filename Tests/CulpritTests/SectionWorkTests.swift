import CulpritReports
import Foundation
import TestSupport
import Testing

@testable import Culprit

@Suite(.ownThread) struct SectionWorkTests {
  private func reports(of scenario: String) throws -> [StallReport] {
    let child = try ChildProcess(ChildProcess.built("waiting-process"), [scenario, "json"])
    return try child.output.split(separator: "\n")
      .map { try JSONDecoder().decode(StallReport.self, from: Data($0.utf8)) }
  }

  private func section(of scenario: String) throws -> StallReport {
    let reports = try reports(of: scenario).filter { $0.source.name == "request" }
    return try #require(reports.count == 1 ? reports.first : nil, "\(reports)")
  }

  @Test(arguments: [
    "bridge-task", "bridge-nested-task", "bridge-child", "bridge-group", "bridge-actor", "bridge-inner-section",
    "bridge-group-body",
  ]) func samplesTasksOfSection(scenario: String) throws {
    let report = try section(of: scenario)
    #expect(report.culprit?.function.name == "rebuildIndex()", "\(report)")
    #expect(report.callers.contains { $0.function.name.contains("answer") } || scenario == "bridge-group-body")
    let awaiting = report.lastStack?.functions.filter { $0.isAwaiting }.map(\.name) ?? []
    #expect(awaiting.contains { $0.hasPrefix("closure #1 in ") }, "\(report)")
    #expect(report.suspendedIn == nil && report.causes.first?.kind != .awaiting)
  }

  @Test(arguments: ["bridge-detached", "bridge-dispatch", "bridge-thread"])
  func namesSuspensionPointOfUnknownWork(scenario: String) throws {
    let report = try section(of: scenario)
    #expect(report.verdict == .suspended && report.culprit == nil, "\(report)")
    let place = try #require(report.suspendedIn, "\(report)")
    #expect(place.function.name.hasSuffix("in requestAnswer(_:)") && place.function.location != nil, "\(place)")
    #expect(report.causes.first?.kind == .awaiting)
    #expect(
      report.text(width: 400).contains("CULPRIT   unknown: suspended in \(place.function.displayName) (Bridges.swift:")
    )
  }

  @Test(arguments: ["bridge-other-child", "bridge-other-grandchild"])
  func ignoresUnawaitedChildTasks(scenario: String) throws {
    let report = try section(of: scenario)
    #expect(report.causes.map(\.kind).filter { $0 != .congestion } == [.awaiting], "\(report)")
    #expect(report.culprit?.function.name.contains("bridgeScenarios") == true, "\(report)")
  }

  @Test(arguments: [
    ("bridge-function", "awaitCourier()"), ("bridge-sleep", "closure #"), ("bridge-nanosleep", "closure #"),
  ]) func blamesOwnFunctionsThatWait(scenario: String, culprit: String) throws {
    let report = try section(of: scenario)
    #expect(report.culprit?.function.name.hasPrefix(culprit) == true, "\(report)")
    #expect(report.causes.first?.kind == (scenario == "bridge-function" ? .awaiting : .sleep), "\(report)")
  }

  /// Waiting requests must name the request that holds the connection, which is no stall.
  @Test func namesRequestThatHoldsConnection() throws {
    let waiting = try reports(of: "bridge-pool").filter { $0.source.name == "request" }
    try #require(waiting.count == 2, "\(waiting)")
    for report in waiting {
      #expect(report.culprit?.function.name.contains("lease()") == true, "\(report)")
      let notes = report.notes.filter { $0.kind == .meanwhile }
      #expect(notes.map(\.title) == ["GET /report"] && notes.allSatisfy { $0.text.isEmpty }, "\(report)")
      #expect(report.metadata["culprit.stall.meanwhile"] == "GET /report")
      #expect(report.text(width: 400).contains("OVERLAP   \"GET /report\" ran meanwhile, for "))
    }
  }

  @Test func sharedLabelsLinkReports() throws {
    let reports = try reports(of: "bridge-label")
    let section = try #require(reports.first { $0.source.kind == .section }, "\(reports)")
    let turn = try #require(reports.first { $0.source.kind == .loop }, "\(reports)")
    #expect(turn.culprit?.function.name == "rebuildIndex()", "\(turn)")
    for (one, other) in [(section, turn), (turn, section)] {
      let note = try #require(one.notes.last { $0.kind == .sharedLabel }, "\(one)")
      #expect(note.text == other.id && note.title == other.source.description && note.time >= .seconds(1))
      #expect(!one.notes.contains { $0.kind == .overlap })
      #expect(one.metadata["culprit.stall.shared_label"] == other.id)
      #expect(one.text(width: 400).contains("OVERLAP   \(other.source) was stuck with the same label, for "))
    }
  }
}

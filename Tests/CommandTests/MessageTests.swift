import CulpritBlackBox
import CulpritStallRecord
import SampleRecordings
import TestSupport
import Testing

@testable import Culprit
@testable import CulpritBlame
@testable import CulpritReports

/// Compares all sentences that users can see with Golden/messages.txt.
///
/// Enumerations are complete, by `allCases` or by a switch that the compiler checks. Whole reports are in
/// ReportsTests/Snapshots, and the texts of metrics in CulpritTests/Golden.
@Suite(.ownThread) struct MessageTests {
  @Test func listsAllMessages() throws {
    let recording = SampleRecordings.everyday()
    let report = ReportBuilder(recording) { _ in [] }.report(of: recording.stalls[0])
    let sections: [(title: String, lines: [String])] = [
      ("Events", Self.events(recording)),
      ("Causes: name, first step, explanation", StallReport.Cause.Kind.all.flatMap { Self.cause($0, report) }),
      ("Kinds of work", Work.Kind.allCases.map(\.text)),
      ("Awaited objects", AwaitedObject.allCases.map(\.text)),
      ("Use of time", Self.uses),
      ("Missing stacks", CaptureOutcome.allCases.map { "\($0): \($0.explanation)" }),
      ("Missing callers", StackEnd.allCases.map { "\($0): \($0.explanation ?? "-")" }),
      ("Missing names", Self.missingNames),
      ("Endings of runs", Self.endings),
      ("Limitations", Self.limitations),
      ("Errors", Self.errors),
      ("Settings: expected values", Setting.all.map { "\($0.name): it must be \($0.form)" }),
      ("Help", try Self.help()),
    ]
    let text = sections.map { "== \($0.title)\n" + $0.lines.map { $0 + "\n" }.joined() }.joined(separator: "\n")
    try expectGolden(text, "messages.txt")
  }

  private static func events(_ recording: Recording) -> [String] {
    [false, true].flatMap { isHang in
      let event = EventText(recording.stalls[0], of: recording.process, isHang: isHang)
      return [event.text(width: 100), event.summary, event.endSummary]
    }
  }

  private static func cause(_ kind: StallReport.Cause.Kind, _ report: StallReport) -> [String] {
    let cause = StallReport.Cause(
      kind: kind,
      share: 1,
      seconds: Seconds(.seconds(4)),
      sampleCount: 20,
      isLikely: false,
      subjects: []
    )
    return ["\(kind): \(CauseText.what(cause))", "  " + report.firstStep(cause), "  " + cause.kind.explanation]
  }

  private static var uses: [String] {
    let uses: [(share: Double, runnable: Double?)] = [
      (1, 0), (0.4, 0.59), (0.4, 0.3), (0.01, 0.3), (0.001, 0), (0.4, nil), (0.01, nil),
    ]
    return uses.map {
      ActivityText.cpu(StallReport.CPUUse(share: $0.share, runnableShare: $0.runnable), nil)
    }
  }

  private static var missingNames: [String] {
    let all: [MissingNameReason] = [
      .notMapped, .noFile, .unreadableFile("Permission denied"), .changedFile(expected: "ab01", found: "cd02"),
      .unverifiable, .noSymbols, .noSymbolHere,
    ]
    return all.map { reason in
      switch reason {
      // A new reason must be added to the list above.
      case .notMapped, .noFile, .unreadableFile, .changedFile, .unverifiable, .noSymbols, .noSymbolHere:
        reason.explanation
      }
    }
  }

  private static var endings: [String] {
    let all: [RunVerdict] = [
      .cleanExit, .terminated, .fatalHang, .killed, .crash(signal: 11), .outOfMemory, .possiblyOutOfMemory,
      .machineGone,
    ]
    return all.map { ending in
      switch ending {
      // A new ending must be added to the list above.
      case .cleanExit, .terminated, .fatalHang, .killed, .crash, .outOfMemory, .possiblyOutOfMemory, .machineGone:
        ending.description
      }
    }
  }

  private static var limitations: [String] {
    let all: [Watchdog.Limitation] = [
      .blockedThreads(13), .signalsAtOnce, .computingThreads, .unknownStacks, .otherThreads(13),
      .handlerReplaced, .samplersHeldUp(1, of: 2), .samplersHeldUp(2, of: 2), .samplersHeldUp(0, of: 0), .readingWaits,
      .poolThreads, .tasks,
    ]
    let jobs = Watchdog.Limitation.computingJobs(1, exceptOnActors: false)
    // The reason depends on the machine.
    let sentence = jobs.description.split(separator: ", because").first ?? ""
    return all.map { "\($0.code): \($0)" } + ["\(jobs.code): \(sentence), because …"]
  }

  private static var errors: [String] {
    let all: [WatchdogError] = [
      .invalidConfiguration("SENTENCE", setting: "NAME"), .fixedWhileRunning("storage.directory"), .changedWithin,
      .disabled, .stopped, .notInThisProcess(watched: 4242), .alreadyWatched("http"), .tooManySources(limit: 8),
      .tooManyActivities(limit: 8), .noRunLoops, .timedOut(after: .seconds(2)), .stillStopping,
      .unsupported("REASON"),
    ]
    let changes: [(inout Watchdog.Configuration) -> Void] = [
      { $0.sampling.threshold = .zero }, { $0.sampling.hangThreshold = .zero }, { $0.sampling.interval = .zero },
      { $0.sampling.stackBytesMax = 0 }, { $0.sampling.cpuBudget = 0 }, { $0.reporting.width = 0 },
      { $0.storage.filesMax = -1 }, { $0.storage.ageMax = .seconds(-1) }, { $0.storage.directory = "" },
      { $0.storage.directory = "~/stalls" }, { $0.metrics.file = "metrics.txt" }, { $0.metrics.interval = .zero },
      { $0.metrics.labels = ["le": "1"] }, { $0.lifecycle.terminateAfter = .zero },
    ]
    let refused = changes.map { change in
      var configuration = Watchdog.Configuration()
      change(&configuration)
      do throws(WatchdogError) {
        try configuration.validate()
        return "accepted"
      } catch { return "\(error.code): \(error.message)" }
    }
    return all.map { "\($0.code): \($0.message)" } + refused
  }

  private static func help() throws -> [String] {
    let overview = try culprit(["--help"]).out
    let commands = ["report", "top", "diff", "export", "info", "symbolize", "completion", "man"]
    return try [overview] + commands.map { try culprit(["help", $0]).out }
  }
}

import CulpritReports
import CulpritStallRecord

/// What counting, comparing and exporting need of a stall: the facts of its report, without the evidence.
package struct CountedStall: Hashable, Sendable {
  /// What tells it from the other stalls of its host.
  package var id: String
  /// The host; empty if unknown.
  package var host: String
  /// The name of the process's executable; empty if unknown.
  package var service: String
  /// The build-id of the executable; empty if unknown.
  package var version: String
  /// The process id; `nil` if unknown.
  package var processID: Int32?
  /// What stalled.
  package var source: StallReport.Source
  /// What tells its problem from others.
  package var signature: String
  /// When the work began.
  package var began: StallReport.Timestamp
  /// How long it took.
  package var duration: Duration
  /// The number of other stalls that it stands for, and the sum of their durations.
  package var unrecordedCount = 0
  package var unrecordedTime = Duration.zero
  /// What it was allowed to take.
  package var threshold: Duration
  /// Whether ``duration`` is a lower bound.
  package var isLowerBound: Bool
  /// Whether the end was seen.
  package var hasEnded: Bool
  /// Whether it became a hang.
  package var isHang: Bool
  /// Whether a function is to blame.
  package var verdict: StallReport.Verdict
  /// The function that is to blame; where none is, the one that awaits work elsewhere, or the one at the end of the heaviest path.
  package var function: StallReport.Function?
  /// The function's part of the stall, from 0 to 1.
  package var share: Double?
  /// Why the work did not go on for most of the stall; `nil` where that is not known.
  package var cause: StallReport.Cause?
  /// What the application had said of the work.
  package var labels: [String]

  /// The facts of `report`.
  package init(_ report: StallReport) {
    id = report.id
    host = report.process?.host ?? ""
    service = report.process?.name ?? ""
    version = report.process?.buildID ?? ""
    processID = report.process?.id
    source = report.source
    signature = report.signature ?? ""
    began = report.began
    duration = report.duration
    unrecordedCount = report.group?.unrecordedCount ?? 0
    unrecordedTime = report.group?.unrecordedTime ?? .zero
    threshold = report.threshold
    isLowerBound = report.isLowerBound
    hasEnded = report.hasEnded
    isHang = report.hang != nil
    verdict = report.verdict
    let suspended = report.suspendedIn.map { report.callers.first ?? $0 }
    let finding = report.culprit ?? suspended ?? report.dominant
    function = finding?.function
    share = finding?.share
    cause = report.causes.first
    labels = report.labels.map(\.text)
  }

  /// What tells a stall from all others.
  fileprivate struct Identity: Hashable {
    var host: String
    var id: String
  }

  fileprivate var identity: Identity { Identity(host: host, id: id) }

  /// Who is to blame, in a few words: "Catalog.rebuildIndex(for:)", "nobody alone (poll)".
  package var culprit: String {
    switch verdict {
    case .culprit: function.map { visible($0.name) } ?? "a function without a name"
    case .noStacks: "no stack was captured"
    case .suspended: "suspended in " + (function.map { visible($0.name) } ?? "a function without a name")
    default: "nobody alone" + (function.map { " (\(visible($0.name)))" } ?? "")
    }
  }

  /// Where that is, in short: "Catalog.swift:29", else the module; `nil` if unknown, or if the name has it.
  package var place: String? {
    guard let function else { return nil }
    if let location = function.location { return "\(location.fileName):\(location.line)" }
    return function.moduleName.isEmpty || function.isAddress(function.name) ? nil : function.moduleName
  }

  /// What kind of cause; "unknown" where there is none.
  package var causeKind: String { (cause?.kind ?? .unknown).rawValue }

  /// What stalled, and of which service: `event loop "http" of shop`. The whole of it: stalls are counted by it.
  package var sourceText: String {
    "\(source.kind) \"\(printable(source.name))\"" + (service.isEmpty ? "" : " of \(printable(service))")
  }
}

extension [CountedStall] {
  /// Each stall once, the newest first: a directory and a copy of it have the same ones, and of two the copy that was made later
  /// knows more.
  package func merged() -> [CountedStall] {
    var places: [CountedStall.Identity: Int] = [:]
    var merged: [CountedStall] = []
    for stall in self {
      if let place = places[stall.identity] {
        let known = merged[place]
        let isLater = stall.hasEnded != known.hasEnded ? stall.hasEnded : stall.duration > known.duration
        if isLater { merged[place] = stall }
      } else {
        places[stall.identity] = merged.count
        merged.append(stall)
      }
    }
    return merged.sorted { ($1.began, $0.host, $0.id) < ($0.began, $1.host, $1.id) }
  }
}

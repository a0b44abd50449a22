import CulpritReports
import CulpritStallRecord

/// The facts of a stall's report, without its evidence.
package struct CountedStall: Hashable, Sendable {
  /// Unique on its host.
  package var id: String
  /// Empty if unknown.
  package var host: String
  /// The executable; empty if unknown.
  package var service: String
  /// The executable's build ID; empty if unknown.
  package var version: String
  package var processID: Int32?
  package var source: StallReport.Source
  package var signature: String
  /// The start of the work.
  package var began: StallReport.Timestamp
  package var duration: Duration
  /// Unrecorded stalls that this stall represents.
  package var unrecordedCount = 0
  /// Total duration of the unrecorded stalls.
  package var unrecordedTime = Duration.zero
  package var threshold: Duration
  /// Whether ``duration`` is a lower bound.
  package var isLowerBound: Bool
  /// Whether the end was observed.
  package var hasEnded: Bool
  package var isHang: Bool
  package var verdict: StallReport.Verdict
  /// The culprit; without a culprit, the function that awaits work elsewhere, or the end of the heaviest path.
  package var function: StallReport.Function?
  /// The function's share of the stall, from 0 to 1.
  package var share: Double?
  package var cause: StallReport.Cause?
  /// The application's labels of the work.
  package var labels: [String]

  package init(_ report: StallReport) {
    id = report.id
    host = report.process?.host ?? ""
    service = report.process?.name ?? ""
    version = report.process?.buildID ?? ""
    processID = report.process?.id
    source = report.source
    signature = report.signature
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

  /// The identity of a stall across hosts.
  fileprivate struct Identity: Hashable {
    var host: String
    var id: String
  }

  fileprivate var identity: Identity { Identity(host: host, id: id) }

  /// The culprit in a few words, as in "Catalog.rebuildIndex(for:)" or "no single culprit (poll)".
  package var culprit: String {
    switch verdict {
    case .culprit: function.map { visible($0.name) } ?? "a function without a name"
    case .noStacks: "no stack was captured"
    case .suspended: "suspended in " + (function.map { visible($0.name) } ?? "a function without a name")
    default: "no single culprit" + (function.map { " (\(visible($0.name)))" } ?? "")
    }
  }

  /// The short location of the function, as in "Catalog.swift:29", or its module. `nil` if the name is an address,
  /// which contains the module.
  package var place: String? {
    guard let function else { return nil }
    if let location = function.location { return "\(location.fileName):\(location.line)" }
    return function.moduleName.isEmpty || function.isAddress(function.name) ? nil : function.moduleName
  }

  package var causeKind: String { (cause?.kind ?? .unknown).rawValue }

  /// The source and its service, as in `event loop "http" of shop`. Not shortened, because it is a grouping key.
  package var sourceText: String {
    "\(source.kind) \"\(printable(source.name))\"" + (service.isEmpty ? "" : " of \(printable(service))")
  }
}

extension [CountedStall] {
  /// Returns each stall once, newest first. Keeps the most complete copy of a stall.
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

import CulpritStallRecord

extension StallReport {
  /// The report as flat key-value pairs for a structured logger.
  ///
  ///     logger.error("\(report.headline)", metadata: report.metadata.mapValues { "\($0)" })
  ///
  /// Uses OpenTelemetry's keys if available (`code.function.name`, `code.file.path`, `code.line.number`, `process.pid`,
  /// `thread.id`, `thread.name`, `process.executable.path`, `host.name`). Other keys start with `culprit.`. Unknown
  /// values are omitted. Values longer than 1,000 characters are shortened in the middle.
  public var metadata: [String: String] {
    var pairs = [
      "culprit.stall.id": id,
      "culprit.source.kind": source.kind.rawValue,
      "culprit.source.name": printable(source.name),
      "culprit.stall.began": began.description,
      "culprit.stall.duration": Self.seconds(duration),
      "culprit.stall.threshold": Self.seconds(threshold),
      "culprit.stall.ended": "\(hasEnded)",
      "culprit.stall.hang": "\(hang != nil)",
      "culprit.verdict": verdict.rawValue,
      "culprit.samples": "\(evidence.stackCount)",
    ]
    pairs["culprit.signature"] = signature
    if let process {
      pairs["host.name"] = process.host.map { printable($0) }
      pairs["process.pid"] = "\(process.id)"
      pairs["process.executable.path"] = printable(process.executable)
    }
    if thread.id != 0 {
      pairs["thread.id"] = "\(thread.id)"
      pairs["thread.name"] = printable(thread.name)
    }
    if let culprit {
      pairs["code.function.name"] = culprit.function.name
      pairs["culprit.share"] = Formatting.fixed(culprit.share, decimals: 3)
      pairs["culprit.module"] = printable(culprit.function.module)
      if let location = culprit.function.location {
        pairs["code.file.path"] = printable(location.file)
        pairs["code.line.number"] = "\(location.line)"
      }
    }
    if !labels.isEmpty { pairs["culprit.labels"] = printable(labels.map(\.text).joined(separator: ", ")) }
    if let place = suspendedIn { pairs["culprit.suspended_in"] = place.function.name }
    let others = overlaps.filter { $0.kind == .overlap }.map(\.text)
    if !others.isEmpty { pairs["culprit.stall.overlaps"] = others.joined(separator: " ") }
    let related = overlaps.filter { $0.kind == .sharedLabel }.map(\.text)
    if !related.isEmpty { pairs["culprit.stall.shared_label"] = related.joined(separator: " ") }
    let meanwhile = overlaps.filter { $0.kind == .meanwhile }.map(\.title)
    if !meanwhile.isEmpty { pairs["culprit.stall.meanwhile"] = printable(meanwhile.joined(separator: ", ")) }
    if let cause = causes.first {
      pairs["culprit.cause"] = cause.kind.rawValue
      pairs["culprit.cause.share"] = Formatting.fixed(cause.share, decimals: 3)
      if let subject = cause.subjects.first {
        pairs["culprit.cause.subject"] = subject.text
        pairs["culprit.cause.subject.share"] = Formatting.fixed(subject.share, decimals: 3)
      }
    }
    if let chain = waitChains.first, chain.share >= 0.5, let last = chain.links.last {
      pairs["culprit.waited_for"] = last.kind.rawValue
      pairs["culprit.deadlock"] = "\(chain.isDeadlock)"
      pairs["culprit.holder.thread.id"] = "\(last.holder.id)"
      pairs["culprit.holder.function"] = last.culprit?.function.name
    }
    return pairs.mapValues { FunctionName.withoutMiddle($0, Self.longestValue) }
  }

  var overlaps: [Note] {
    [Note.Kind.overlap, .sharedLabel, .meanwhile].flatMap { kind in notes.filter { $0.kind == kind } }
  }

  /// Maximum length of a value. Names of generic functions have no limit, but log stores reject long values or handle
  /// them inefficiently.
  private static let longestValue = 1000
  private static let longestLabel = 60

  /// The report in one line: source, prevailing label, duration, and culprit.
  public var headline: String {
    let most = labels.first.flatMap { $0.share >= 0.5 && visible($0.text) == $0.text ? printable($0.text) : nil }
    let label = most.map { " \"\(FunctionName.withoutMiddle($0, Self.longestLabel))\"" } ?? ""
    let stuck = "\(source)\(label) was stuck for \(isLowerBound ? "at least " : "")\(Formatting.duration(duration))"
    switch verdict {
    case .culprit:
      guard let culprit else { return stuck }
      let holder = WaitChainText.headline(waitChains, of: thread).map { ", \($0)" } ?? ""
      return "\(stuck): \(Self.placed(culprit.function)) took \(Formatting.percent(culprit.share))\(holder)"
    case .noStacks: return "\(stuck): no stack was captured"
    case .suspended: return suspendedIn.map { "\(stuck): suspended in \(suspension($0))" } ?? stuck
    default: return "\(stuck): no single culprit"
    }
  }

  func suspension(_ place: Finding) -> String {
    Self.placed(place.function) + (callers.first.map { ", called by \(Self.placed($0.function))" } ?? "")
  }

  private static func placed(_ function: Function) -> String {
    function.displayName + (function.location.map { " (\(printable($0.fileName)):\($0.line))" } ?? "")
  }

  /// Returns the report as JSON (RFC 8259) in one line, in the format of docs/internals/report-json.md.
  ///
  /// - Throws: `EncodingError` for a share that is not a number, which no stall produces.
  public func json() throws -> String { try encodedJSON(self) }

  /// The report as a single log line: time, process, headline and cause.
  public var summary: String {
    let process = process.map { "\(abridged($0.name))[\($0.id)] " } ?? ""
    let cause = causes.first.map { "; \(CauseText.whatAndShare($0))" }
    return "\(began) \(process)\(headline)\(cause ?? "")"
  }

  private static func seconds(_ duration: Duration) -> String { Formatting.fixed(duration.inSeconds, decimals: 3) }
}

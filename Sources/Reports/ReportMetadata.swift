import CulpritStallRecord

extension StallReport {
  /// The report as flat pairs for a structured logger, to search and count by.
  ///
  ///     logger.error("\(report.headline)", metadata: report.metadata.mapValues { "\($0)" })
  ///
  /// Names are OpenTelemetry's where it has one (`code.function.name`, `code.file.path`, `code.line.number`,
  /// `process.pid`, `thread.id`, `thread.name`, `process.executable.path`, `host.name`); others begin with `culprit.`. A pair is
  /// left out where its value is not known. Of a value of more than 1,000 characters the middle is left out.
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
    if let place = suspendedIn { pairs["culprit.suspended_in"] = place.function.name }
    let others = overlaps.filter { $0.kind == .overlap }.map(\.text)
    if !others.isEmpty { pairs["culprit.stall.overlaps"] = others.joined(separator: " ") }
    let related = overlaps.filter { $0.kind == .sharedLabel }.map(\.text)
    if !related.isEmpty { pairs["culprit.stall.shared_label"] = related.joined(separator: " ") }
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
    return pairs.mapValues { Formatting.fitted($0, Self.longestValue) }
  }

  /// The notes about other work of the same thread or task, or with the same label, that was stuck at the same time.
  var overlaps: [Note] { notes.filter { $0.kind == .overlap } + notes.filter { $0.kind == .sharedLabel } }

  /// Longer ones are refused by what stores logs, or cost it more than they tell: names of generic functions have no limit.
  private static let longestValue = 1000

  /// The report in one line: the source, how long it was stuck, and who is to blame.
  public var headline: String {
    let stuck = "\(source) was stuck for \(isLowerBound ? "at least " : "")\(Formatting.duration(duration))"
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

  /// The function and line of `place`, where the work was suspended, and those of its caller.
  func suspension(_ place: Finding) -> String {
    Self.placed(place.function) + (callers.first.map { ", called by \(Self.placed($0.function))" } ?? "")
  }

  /// The name of `function`, and its line if that is known.
  private static func placed(_ function: Function) -> String {
    function.displayName + (function.location.map { " (\(printable($0.fileName)):\($0.line))" } ?? "")
  }

  /// The report as JSON (RFC 8259) in one line, in the form that docs/report-json.md describes and docs/report-1.schema.json is the
  /// schema of. Needs no Foundation; its `JSONDecoder`, or any other decoder, makes the report of it again.
  ///
  /// - Throws: `EncodingError` for a share that is no number, which no stall leads to.
  public func json() throws -> String { try encodedJSON(self) }

  /// The report in one line for a log, with its time and process: the headline, and why.
  public var summary: String {
    let process = process.map { "\(abridged($0.name))[\($0.id)] " } ?? ""
    let cause = causes.first.map { "; \(CauseText.whatAndShare($0))" }
    return "\(began) \(process)\(headline)\(cause ?? "")"
  }

  private static func seconds(_ duration: Duration) -> String { Formatting.fixed(duration.inSeconds, decimals: 3) }
}

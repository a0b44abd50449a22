import CulpritStallRecord

/// What is said of a stall while it lasts, before there is a report: in the style of the report.
package struct EventText: Sendable {
  private let source: WatchedSource
  private let threshold, age: Duration
  private let thread: ObservedThread
  private let start: WallTime
  private let process: ObservedProcess?
  private let isHang, hasEnded: Bool

  /// The text about `stall` of `process`, of which no more than that is known. Made when it is asked for: there can be
  /// thousands of events in a moment.
  package init(_ stall: Stall, of process: ObservedProcess?, isHang: Bool) {
    (source, thread, start) = (stall.source, stall.namingPoolThreads.thread, stall.began)
    (threshold, age) = (stall.threshold, stall.duration)
    self.process = process
    self.isHang = isHang
    hasEnded = stall.hasEnded
  }

  private var began: StallReport.Timestamp { StallReport.Timestamp(start) }

  private var what: String {
    let allowed = "limit \(Formatting.duration(threshold))"
    return "\(StallReport.Source(source)) \(isHang ? "hangs" : "is stuck"): \(Formatting.duration(age)), \(allowed)"
  }

  private var place: String {
    Self.place(process: process.map { ($0.name, $0.id) }, thread: StallReport.Thread(thread), began: began)
  }

  /// What is stuck, for how long, and what is allowed.
  package var sentence: String { what }

  /// The same in one line for a log, with its time and process.
  package var summary: String { head + what }

  /// The summary of a stall of which no more is to come.
  package var endSummary: String {
    let stuck = "\(StallReport.Source(source)) \(hasEnded ? "was" : "has been") stuck"
    return "\(head)\(stuck) for \(Formatting.duration(age)), limit \(Formatting.duration(threshold))"
  }

  private var head: String {
    let process = process.map { "\(abridged($0.name))[\($0.id)] " } ?? ""
    return "\(began) \(process)"
  }

  /// The same in lines of `width` characters, at least 40, with the place.
  package func text(width: Int) -> String {
    let page = Page(style: StallReport.TextStyle(width: max(40, width)), labelWidth: TextReport.labelWidth)
    return (ReportSection(isHang ? "HANG" : "BEGAN", [what, place]).map(page.lines) ?? []).joined(separator: "\n")
      + "\n"
  }

  /// Where something is stuck, and since when.
  static func place(
    process: (name: String, id: Int32)?,
    thread: StallReport.Thread,
    began: StallReport.Timestamp
  ) -> String {
    var place: [String] = []
    if let process { place.append("\(abridged(process.name)) (process \(process.id))") }
    let threadName = thread.name.isEmpty ? "" : " \"\(abridged(thread.name))\""
    if thread.id != 0 { place.append("thread \(thread.id)\(threadName)") }
    place.append("since \(began)")
    return place.joined(separator: ", ")
  }
}

import CulpritStallRecord

package struct EventText: Sendable {
  private let source: WatchedSource
  private let threshold, age: Duration
  private let thread: ObservedThread
  private let start: WallTime
  private let process: ObservedProcess?
  private let isHang, hasEnded: Bool

  /// Creates the text. Formatting is deferred, because thousands of events can occur at once.
  package init(_ stall: Stall, of process: ObservedProcess?, isHang: Bool) {
    (source, thread, start) = (stall.source, stall.thread, stall.began)
    (threshold, age) = (stall.threshold, stall.duration)
    self.process = process
    self.isHang = isHang
    hasEnded = stall.hasEnded
  }

  private var began: StallReport.Timestamp { StallReport.Timestamp(start) }

  package var sentence: String {
    let limit = "limit \(Formatting.duration(threshold))"
    return "\(StallReport.Source(source)) \(isHang ? "hangs" : "is stuck"): \(Formatting.duration(age)), \(limit)"
  }

  private var place: String {
    Self.place(process: process.map { ($0.name, $0.id) }, thread: StallReport.Thread(thread), began: began)
  }

  package var summary: String { head + sentence }

  package var endSummary: String {
    let stuck = "\(StallReport.Source(source)) \(hasEnded ? "was" : "has been") stuck"
    return "\(head)\(stuck) for \(Formatting.duration(age)), limit \(Formatting.duration(threshold))"
  }

  package var summaryParts: (head: String, tail: String) {
    ("\(head)\(StallReport.Source(source)) has been stuck for ", ", limit \(Formatting.duration(threshold))")
  }

  private var head: String {
    let process = process.map { "\(abridged($0.name))[\($0.id)] " } ?? ""
    return "\(began) \(process)"
  }

  package func text(width: Int) -> String {
    let page = Page(style: StallReport.TextStyle(width: max(40, width)), labelWidth: TextReport.labelWidth)
    return (ReportSection(isHang ? "HANG" : "BEGAN", [sentence, place]).map(page.lines) ?? []).joined(separator: "\n")
      + "\n"
  }

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

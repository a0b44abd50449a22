import CulpritStallRecord

/// What is said of a stall while it lasts, before there is a report: in the style of the report.
package struct EventText: Sendable {
  private let label: String
  private let what: String
  private let place: String
  private let began: StallReport.Timestamp
  private let process: ObservedProcess?

  /// The text about `stall` of `process`, of which no more than that is known.
  package init(_ stall: Stall, of process: ObservedProcess?, isHang: Bool) {
    label = isHang ? "HANG" : "BEGAN"
    let allowed = "\(Formatting.duration(stall.threshold)) are allowed"
    let age = Formatting.duration(stall.duration)
    what = "\(StallReport.Source(stall.source)) \(isHang ? "hangs" : "is stuck"): \(age), \(allowed)"
    began = StallReport.Timestamp(stall.began)
    self.process = process
    place = Self.place(
      process: process.map { ($0.name, $0.id) },
      thread: StallReport.Thread(stall.thread),
      began: began
    )
  }

  /// What is stuck, for how long, and what is allowed.
  package var sentence: String { what }

  /// The same in one line for a log, with its time and process.
  package var summary: String {
    let process = process.map { "\(abridged($0.name))[\($0.id)] " } ?? ""
    return "\(began) \(process)\(what)"
  }

  /// The same in lines of `width` characters, at least 40, with the place.
  package func text(width: Int) -> String {
    let page = Page(style: StallReport.TextStyle(width: max(40, width)), labelWidth: TextReport.labelWidth)
    return (ReportSection(label, [what, place]).map(page.lines) ?? []).joined(separator: "\n") + "\n"
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

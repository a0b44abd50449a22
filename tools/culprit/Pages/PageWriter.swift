import CulpritBlame
import CulpritExports
import CulpritReports
import CulpritStallRecord

/// Writes stalls as a single HTML file that makes no network requests.
///
/// Reports are markup. Samples and stacks are compressed data that a script draws.
package struct PageWriter {
  private struct Entry {
    var began: WallTime
    var article: PageArticle
    var profile: LongList<UInt8>
  }

  private let version: String
  private let samplesPerReport: Int
  private let store: (any OverflowStore)?
  private var entries: [Entry] = []

  package var stallCount: Int { entries.count }

  /// Creates an empty page.
  ///
  /// - Parameters:
  ///   - version: This program's version.
  ///   - samplesPerReport: The minimum number of samples for computing blame.
  ///   - store: Storage for large profiles.
  package init(
    version: String,
    samplesPerReport: Int = Stall.samplesForReport,
    store: (any OverflowStore)? = nil
  ) {
    self.version = version
    self.samplesPerReport = samplesPerReport
    self.store = store
  }

  /// Adds the stalls of `recording`.
  ///
  /// - Parameters:
  ///   - recording: The recording.
  ///   - logs: All samples of each stall, if `recording` contains only a selection.
  ///   - rules: The rules for the application's own code.
  ///   - resolve: Symbolizes a frame, innermost inlined function first.
  package mutating func add(
    _ recording: Recording,
    logs: [SampleLog]? = nil,
    rules: OwnershipRules = OwnershipRules(),
    resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) {
    let builder = ReportBuilder(recording, rules: rules, resolve: resolve)
    let stacks = ProfileStacks(recording, rules: rules, resolve: resolve)
    for (place, stall) in recording.stalls.enumerated() {
      let report = builder.report(of: stall.withSamples(samplesPerReport))
      var profile = PageProfile(stall, report, stacks, builder, log: logs?[place], store: store)
      entries.append(Entry(began: stall.began, article: PageArticle(report), profile: encoded(&profile)))
    }
  }

  /// Returns `profile` as gzip in Base64.
  private func encoded(_ profile: inout PageProfile) -> LongList<UInt8> {
    var text = LongList<UInt8>(store: store)
    var left: [UInt8] = []
    let sink = ByteSink { piece in
      left += piece
      let whole = left.count - left.count % Base64.groupBytes
      text.append(contentsOf: Base64.encode(left[..<whole]))
      left.removeFirst(whole)
    }
    // A sink in memory throws no errors. If memory is too short for zlib, it is too short for the page.
    guard let gzip = GzipSink(sink) else { preconditionFailure("not enough memory to compress the page") }
    try? profile.write { try gzip.write($0) }
    try? gzip.finish()
    text.append(contentsOf: Base64.encode(left))
    return text
  }

  /// Writes the page in pieces. A page without stalls writes nothing.
  ///
  /// - Throws: Errors of `out`.
  package func write(to out: @escaping ([UInt8]) throws -> Void) throws {
    guard !entries.isEmpty else { return }
    let sink = ByteSink(out)
    // The newest stall comes first.
    let sorted = entries.enumerated()
      .sorted { ($1.element.began, $0.offset) < ($0.element.began, $1.offset) }.map(\.element)
    let keys = Self.keys(sorted)
    let title = sorted.count == 1 ? Self.title(sorted[0].article) : "\(sorted.count) stalls"
    try sink.write(PageShell.head(title: title))
    try sink.write(Self.problems(sorted, keys))
    try sink.write(Self.list(sorted, keys))
    try sink.write("<main id=\"main\">\n")
    for (number, entry) in sorted.enumerated() {
      try sink.write(entry.article.markup(number, key: keys[number]))
      try sink.write("\n")
    }
    try sink.write(PageShell.explorer)
    try sink.write("</main>\n")
    try sink.write(
      Markup.element("footer", "", "culprit \(Markup.text(version)). This page is complete: it needs no network.")
        + "\n"
    )
    for (number, entry) in sorted.enumerated() {
      try sink.write("<script type=\"application/octet-stream\" id=\"profile-\(number)\">")
      try entry.profile.forEachPiece { piece in try sink.write(piece) }
      try sink.write("</script>\n")
    }
    try sink.write(PageShell.end)
    try sink.flush()
  }

  private static func title(_ article: PageArticle) -> String {
    "\(article.title): \(readable(article.report.duration)) \(article.report.source)"
  }

  /// Returns unique keys. IDs can repeat: a file might occur twice, or two hosts might assign equal IDs.
  private static func keys(_ entries: [Entry]) -> [String] {
    var counts: [String: Int] = [:]
    return entries.map { entry in
      let count = counts[entry.article.key, default: 0] + 1
      counts[entry.article.key] = count
      return entry.article.key + (count > 1 ? "-copy-\(count)" : "")
    }
  }

  /// Returns the table of problems; empty for a single stall.
  private static func problems(_ entries: [Entry], _ keys: [String]) -> String {
    guard entries.count > 1 else { return "" }
    let groups = Dictionary(grouping: entries.indices) { entries[$0].article.report.signature }.values
      .map { places in
        (newest: places[0], count: places.count, times: places.map { entries[$0].article.report.duration })
      }
      .map { group in (group, total: group.times.reduce(.zero, +), longest: group.times.max() ?? .zero) }
      .sorted { ($1.total, $0.0.newest) < ($0.total, $1.0.newest) }
    let rows = groups.map { group, total, longest in
      let article = entries[group.newest].article
      func number(_ value: Duration) -> String {
        Markup.element("td", "number", Markup.text(readable(value)), "data-key=\"\(value.wholeNanoseconds)\"")
      }
      return """
        <tr><td><a href="#stall=\(keys[group.newest])">\(PageArticle.name(article.title))</a></td>\
        <td class="number" data-key="\(group.count)">\(group.count)</td>\(number(total))\(number(longest))\
        <td>\(Markup.time(article.report.began))</td><td>\(Markup.text(article.report.signature))</td></tr>
        """
    }
    let heads = ["Culprit", "Count", "Total", "Longest", "Last seen", "Signature"].enumerated()
      .map { Markup.element("th", (1...3).contains($0.offset) ? "number" : "", $0.element, "scope=\"col\"") }
    return """
      <section id="problems"><table><caption class="unseen">Problems by total stall time</caption>
      <thead><tr>\(heads.joined())</tr></thead>
      <tbody>\(rows.joined(separator: "\n"))</tbody></table></section>

      """
  }

  /// Returns the list of stalls; empty for a single stall.
  private static func list(_ entries: [Entry], _ keys: [String]) -> String {
    guard entries.count > 1 else { return "" }
    let items = entries.enumerated()
      .map { number, entry in
        let report = entry.article.report
        let service = report.process.map { ", \(printable($0.name))" } ?? ""
        return """
          <li><a href="#stall=\(keys[number])" data-number="\(number)"><b>\(PageArticle.name(entry.article.title))</b> \
          <span>\(Markup.text("\(readable(report.duration)), \(report.source)\(service)"))</span> \
          \(Markup.time(report.began))</a></li>
          """
      }
    return
      "<nav id=\"stalls\" aria-label=\"Stalls, the newest first\"><ol>\n\(items.joined(separator: "\n"))\n</ol></nav>\n"
  }
}

import CulpritBlame
import CulpritExports
import CulpritReports
import CulpritStallRecord

/// Makes a page of stalls: one file of HTML with everything in it, which asks for nothing from anywhere.
///
/// What the reports say is markup, in the words that a terminal gets. Samples and stacks are data, compressed, that a script draws.
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

  /// How many stalls there are.
  package var stallCount: Int { entries.count }

  /// A page.
  ///
  /// - Parameters:
  ///   - version: The version of this program, which the page says.
  ///   - samplesPerReport: Who is to blame is worked out from so many samples of a stall at least. The graphs have all.
  ///   - store: Where what is made of samples goes when there is much of it.
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
  ///   - recording: What was observed.
  ///   - logs: Every sample of each stall, where the recording has not all of them.
  ///   - rules: What counts as the application's own code.
  ///   - resolve: Names a frame; the innermost function first where calls were inlined.
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

  /// What is drawn of a stall, as the page has it.
  private func encoded(_ profile: inout PageProfile) -> LongList<UInt8> {
    var text = LongList<UInt8>(store: store)
    var left: [UInt8] = []
    let sink = ByteSink { piece in
      left += piece
      let whole = left.count - left.count % Base64.groupBytes
      text.append(contentsOf: Base64.encode(left[..<whole]))
      left.removeFirst(whole)
    }
    // A sink in memory throws nothing, and without memory for zlib there is none for the page.
    guard let gzip = GzipSink(sink) else { preconditionFailure("no memory to compress with") }
    try? profile.write { try gzip.write($0) }
    try? gzip.finish()
    text.append(contentsOf: Base64.encode(left))
    return text
  }

  /// Writes the page to `out`, in pieces; nothing, if it has no stall.
  ///
  /// - Throws: What `out` throws.
  package func write(to out: @escaping ([UInt8]) throws -> Void) throws {
    guard !entries.isEmpty else { return }
    let sink = ByteSink(out)
    // The newest first, as everywhere.
    let sorted = entries.enumerated()
      .sorted { ($1.element.began, $0.offset) < ($0.element.began, $1.offset) }.map(\.element)
    let keys = Self.keys(sorted)
    let title = sorted.count == 1 ? Self.title(sorted[0].article) : "\(sorted.count) stalls"
    try sink.write(PageShell.head(title: title))
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

  /// A key for each of `entries`: a file may be there twice, and hosts may give the same id.
  private static func keys(_ entries: [Entry]) -> [String] {
    var counts: [String: Int] = [:]
    return entries.map { entry in
      let count = counts[entry.article.key, default: 0] + 1
      counts[entry.article.key] = count
      return entry.article.key + (count > 1 ? "-copy-\(count)" : "")
    }
  }

  /// The stalls to choose from, where there are several.
  private static func list(_ entries: [Entry], _ keys: [String]) -> String {
    guard entries.count > 1 else { return "" }
    let items = entries.enumerated()
      .map { number, entry in
        let report = entry.article.report
        let service = report.process.map { ", \(printable($0.name))" } ?? ""
        return """
          <li><a href="#stall=\(keys[number])" data-number="\(number)"><b>\(PageArticle.name(entry.article.title))</b> \
          <span>\(Markup.text("\(readable(report.duration)), \(report.source)\(service)"))</span> \
          <time datetime="\(report.began)">\(report.began)</time></a></li>
          """
      }
    return
      "<nav id=\"stalls\" aria-label=\"Stalls, the newest first\"><ol>\n\(items.joined(separator: "\n"))\n</ol></nav>\n"
  }
}

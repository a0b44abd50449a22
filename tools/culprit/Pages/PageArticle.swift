import CulpritBlame
import CulpritReports
import CulpritStallRecord

/// A report as HTML, readable without scripts and printable.
struct PageArticle {
  let report: StallReport
  private let words: ReportSections
  private let explained: ReportSections

  init(_ report: StallReport) {
    self.report = report
    words = ReportSections(report, isFull: true)
    explained = ReportSections(report, explains: true)
  }

  var key: String {
    String(report.id.map { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == ".") ? $0 : "-" })
  }

  var title: String {
    if let culprit = report.culprit { return culprit.function.displayName }
    if report.suspendedIn != nil { return "Suspended while the work continued elsewhere" }
    return report.verdict == .noStacks ? "No stack was captured" : "No single culprit"
  }

  /// `key` must be unique in the page.
  func markup(_ number: Int, key: String) -> String {
    let sections = [words.contenders, words.timeline, words.workers] + words.circumstances
    let evidence = [words.otherThreads, words.observed, words.notes]
    let details = (sections + evidence).compactMap { $0 }.map { section($0) }
    return """
      <article id="stall-\(number)" data-key="\(Markup.text(key))" aria-labelledby="title-\(number)">
      <div class="answer">
      <div class="verdict">
      \(heading)
      <h2 id="title-\(number)" class="\(report.culprit == nil ? "nobody" : "culprit")">\(Self.name(title))</h2>
      \(holder)\(verdict)
      </div>
      <div class="reasons">
      \(why)
      \(next)
      </div>
      </div>
      <button type="button" class="copy" hidden>Copy as Markdown</button>
      <pre class="markdown" hidden>\(Markup.lines(report.markdown))</pre>
      \(chains)
      <div class="explorer-place"></div>
      \(details.isEmpty ? "" : "<div class=\"details\">\n\(details.joined(separator: "\n"))\n</div>")
      </article>
      """
  }

  /// Returns markup that can break after separators.
  static func name(_ text: String) -> String {
    var marked = ""
    for character in Markup.text(text) {
      marked.append(character)
      if ".:,)_/>".contains(character) { marked += "<wbr>" }
    }
    return marked
  }

  private var heading: String {
    let texts = words.heading?.paragraphs.map(\.text) ?? []
    return texts.enumerated()
      .map { Markup.element("p", $0.offset == 0 ? "stall" : "place", Markup.text($0.element)) }
      .joined(separator: "\n").replacing("\(report.began)", with: Markup.time(report.began))
  }

  private var holder: String {
    let text = WaitChainText.holder(report.waitChains, of: report.thread)
    return text.map { Markup.element("p", "share", Self.name($0)) + "\n" } ?? ""
  }

  private var verdict: String {
    guard let culprit = report.culprit, var texts = words.verdict?.paragraphs.map(\.text) else {
      return Markup.element("p", "", Markup.text(words.nobody))
    }
    // The heading shows the name already, unless other text precedes the name.
    let first = texts.removeFirst()
    let name = culprit.function.displayName
    let rest = first.hasPrefix(name) ? String(first.dropFirst(name.count)) : first
    var markup = Markup.element("p", "share", Markup.text(rest.drop { $0 == " " }.description))
    markup += bar([(culprit.share, "culprit")])
    if words.culpritPlace != nil { markup += Markup.element("p", "source", Self.name(texts.removeFirst())) }
    return markup + texts.map { Markup.element("p", "", Markup.text($0)) }.joined(separator: "\n")
  }

  /// Returns a bar chart. Screen readers ignore it, because the text contains the values.
  private func bar(_ shares: [(share: Double, kind: String)]) -> String {
    var position = 0.0
    let parts = shares.map { share, kind in
      defer { position += share }
      return
        "<rect class=\"\(kind)\" x=\"\(Self.percent(position))\" width=\"\(Self.percent(share))\" height=\"100%\"></rect>"
    }
    return "<svg class=\"bar\" aria-hidden=\"true\">\(parts.joined())</svg>"
  }

  private static func percent(_ share: Double) -> String {
    let tenths = Int((min(1, max(0, share)) * 1000).rounded())
    return "\(tenths / 10).\(tenths % 10)%"
  }

  private var why: String {
    guard let section = words.causes else { return "" }
    let kinds = report.causes.prefix(5).enumerated().map { ($0.element.share, "cause-\($0.offset)") }
    let items = section.paragraphs.enumerated()
      .map {
        "<li><span class=\"key cause-\($0.offset)\" aria-hidden=\"true\"></span>\(Markup.text($0.element.text))</li>"
      }
    return "<section><h3>Why</h3>\(bar(kinds))<ul class=\"causes\">\(items.joined())</ul></section>"
  }

  private var next: String {
    guard let section = words.advice else { return "" }
    let first = section.paragraphs.map { Markup.element("p", "step", Markup.text($0.text)) }.joined()
    let more = explained.advice?.paragraphs.map { Markup.element("p", "", Markup.text($0.text)) }.joined() ?? ""
    let details = more.isEmpty ? "" : "<details><summary>More advice</summary>\(more)</details>"
    return "<section class=\"next\"><h3>Next</h3>\(first)\(details)</section>"
  }

  private func section(_ section: ReportSection) -> String {
    var markup = "<section><h3>\(section.title)</h3>"
    var isInList = false
    for paragraph in section.paragraphs {
      if paragraph.isItem != isInList { markup += paragraph.isItem ? "<ul>" : "</ul>" }
      isInList = paragraph.isItem
      markup += Markup.element(isInList ? "li" : "p", "", Markup.text(paragraph.text))
    }
    return markup + (isInList ? "</ul>" : "") + "</section>"
  }

  // MARK: - Wait chains

  private var chains: String {
    let sections = words.waitChains
    // The first sections describe the report's wait chains.
    let drawn = zip(sections, report.waitChains)
      .map { section, chain in
        """
        <section class="waits">
        <h3>\(section.title)</h3>
        <p>\(Markup.text(section.paragraphs[0].text))</p>
        <ol class="chain">\(links(chain))</ol>
        <ul class="told">\(section.paragraphs.dropFirst().map { Markup.element("li", "", Markup.text($0.text)) }.joined())</ul>
        </section>
        """
      }
    return drawn.joined(separator: "\n")
  }

  private func links(_ chain: StallReport.WaitChain) -> String {
    var markup = box(
      report.thread.id == 0 ? report.source.description : threadName(report.thread),
      "the work that is stuck",
      report.culprit?.function,
      kind: "stuck",
      stack: nil
    )
    for (number, link) in chain.links.enumerated() {
      markup += "<li class=\"arrow\"><span>waits for</span><b>\(Markup.text(WaitChainText.noun(link)))</b></li>"
      let isLast = number == chain.links.count - 1
      let what = link.hasHolderEnded ? "has ended" : link.isLikely ? "likely has it" : "has it"
      // A cycle leads back to the thread in the first box.
      if isLast, chain.isCycle, link.holder.id == report.thread.id {
        markup += box(threadName(report.thread), "\(what): the ring is closed", nil, kind: "stuck again", stack: nil)
      } else {
        markup += box(
          WaitChainText.name(link, beside: report.thread),
          what,
          link.culprit?.function ?? link.stack?.functions.first,
          kind: isLast ? "holder" : "between",
          stack: link.stack
        )
      }
    }
    if chain.isCycle, let last = chain.links.last, last.holder.id != report.thread.id {
      markup += "<li class=\"arrow\"><span>waits for</span><b>a thread of this chain</b></li>"
    }
    return markup
  }

  private func threadName(_ thread: StallReport.Thread) -> String {
    "thread \(thread.id)" + (thread.name.isEmpty ? "" : " \"\(printable(thread.name))\"")
  }

  private func box(
    _ name: String,
    _ what: String,
    _ function: StallReport.Function?,
    kind: String,
    stack: StallReport.Stack?
  ) -> String {
    var markup = "<li class=\"box \(kind)\"><b>\(Markup.text(name))</b><span class=\"what\">\(Markup.text(what))</span>"
    if let function { markup += "<code>\(Self.name(function.displayName))</code>" }
    if let functions = stack?.functions, !functions.isEmpty {
      let items = functions.map { function in
        "<li class=\"\(function.isOwn ? "own" : "")\"><code>\(Self.name(function.displayName))</code> "
          + "<span>\(Markup.text(Formatting.origin(function)))</span></li>"
      }
      markup += "<details><summary>its stack</summary><ol class=\"stack\">\(items.joined())</ol></details>"
    }
    return markup + "</li>"
  }
}

import CulpritStallRecord

struct TextReport: Sendable {
  private let boxed: Boxed<StallReport>
  private(set) var style: StallReport.TextStyle

  private static let lastStackFrames = 8
  static let labelWidth = 10

  init(_ report: StallReport, _ style: StallReport.TextStyle = StallReport.TextStyle()) {
    boxed = Boxed(report)
    self.style = style
    self.style.width = max(40, style.width)
  }

  var report: StallReport { boxed.value }

  var text: String {
    let page = Page(style: style, labelWidth: Self.labelWidth)
    var lines: [String] = []
    func add(_ block: [ReportSection?]) {
      let block = block.compactMap { $0 }.flatMap(page.lines)
      lines += block.isEmpty ? [] : block + [""]
    }
    let words = sections
    let answer = [words.heading, words.verdict, words.causes] + words.waitChains
    for section in answer + [words.advice, words.contenders, words.timeline, words.workers] { add([section]) }
    add(words.circumstances)
    if !words.isPool { lines += lastStack(page) }
    lines += tree(page)
    for part in [words.otherThreads, words.observed, words.notes] {
      guard let part else { continue }
      if lines.last != "" { lines.append("") }
      lines += page.lines(part)
    }
    if lines.last == "" { lines.removeLast() }
    let text = lines.joined(separator: "\n") + "\n"
    return style.isASCII ? text.inASCII : text
  }

  private var sections: ReportSections {
    ReportSections(report, isFull: style.isFull, explains: style.explains)
  }

  /// Returns the last stack if it contradicts the report or the report is full.
  private func lastStack(_ page: Page) -> [String] {
    guard let stack = report.lastStack, style.isFull || differs(report.lastStackBlames) else { return [] }
    let blames = report.lastStackBlames.map { "a watchdog that takes one stack would blame \($0.displayName)" }
    var lines = ReportSection("LAST SEEN", [blames ?? "no application code"]).map(page.lines) ?? []
    let functions = stack.functions
    let margin = page.indent + "     "
    func between(_ functions: ArraySlice<StallReport.Function>) -> String {
      margin + style.fitted(Formatting.between(functions), to: page.textWidth - 5)
    }
    let kept = functions.indices.filter { style.isFull || $0 == 0 || functions[$0].isOwn }
      .prefix(style.isFull ? functions.count : Self.lastStackFrames)
    var next = 0
    for number in kept {
      if number > next { lines.append(between(functions[next..<number])) }
      next = number + 1
      let function = functions[number]
      let head = Formatting.right("#\(number)", 4) + " "
      let room = page.textWidth - head.count
      let name = style.spelled(function.displayName)
      let both = style.spelled(Formatting.placed(function, gap: "  "))
      lines.append(page.indent + head + style.fitted(both.count <= room ? both : name, to: room))
    }
    if next < functions.count { lines.append(between(functions[next...])) }
    if let why = stack.missingCallers {
      lines += Formatting.wrapped(style.spelled("callers are missing: \(why)"), page.textWidth - 5).map { margin + $0 }
    }
    return lines + [""]
  }

  private func differs(_ function: StallReport.Function?) -> Bool {
    guard let function, let culprit = report.culprit?.function else { return report.culprit != nil || function != nil }
    return function.displayName != culprit.displayName || function.module != culprit.module
  }

  private func tree(_ page: Page) -> [String] {
    guard !report.tree.isEmpty else { return [] }
    let heading =
      sections.isSweep
      ? "\(Formatting.count(report.evidence.stackCount, "occupied thread")), by number (- a branch, * own code)"
      : "\(Formatting.count(report.evidence.stackCount, "sample")), by time (- a branch, * own code)"
    var lines = ReportSection("TREE", [heading]).map(page.lines) ?? []
    var tree = CallTreeText(style)
    tree.write(report.tree)
    lines += tree.lines
    return lines
  }
}

extension TextReport {
  var ending: String {
    let page = Page(style: style, labelWidth: Self.labelWidth)
    let heading = sections.heading.map { ReportSection("ENDED", $0.paragraphs.map(\.text)) } ?? nil
    let verdict = sections.verdict.flatMap {
      ReportSection($0.label, $0.paragraphs.prefix(sections.culpritPlace == nil ? 1 : 2).map(\.text))
    }
    let cause = CauseText.lines(report).first.flatMap { ReportSection("WHY", [$0]) }
    let text = [heading, verdict, cause].compactMap { $0 }.flatMap(page.lines).joined(separator: "\n") + "\n"
    return style.isASCII ? text.inASCII : text
  }
}

extension StallReport: CustomStringConvertible {
  /// The report as text, in lines of the configured width.
  public var description: String { text(width: width.value) }

  /// Returns the report as text: first the answer, then the evidence.
  ///
  /// - Parameters:
  ///   - width: The line width in characters, at least 40.
  ///   - explains: Whether to include advice about the causes; by default, no.
  /// - Returns: The text.
  public func text(width: Int, explains: Bool = false) -> String {
    text(TextStyle(width: width, explains: explains))
  }

  /// Returns only the answer, in a few lines for a log: source, culprit, and cause. An earlier ``StallEvent`` has
  /// reported the start of the stall.
  ///
  /// - Parameter width: The line width in characters, at least 40.
  /// - Returns: The text.
  public func endText(width: Int) -> String { TextReport(self, TextStyle(width: width)).ending }

  /// Returns the report as text in `style`: first the answer, then the evidence.
  public func text(_ style: TextStyle) -> String { TextReport(self, style).text }
}

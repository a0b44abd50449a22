import CulpritStallRecord

/// A stall's blame report as text, for terminals and logs.
///
/// First the answer, then what it rests on: how long, who, what the last stack would have said, the merged call tree.
struct TextReport: Sendable {
  let report: StallReport
  private(set) var style: StallReport.TextStyle

  /// The most frames of the last stack that are shown.
  private static let lastStackFrames = 8
  /// The most contenders that are shown.
  private static let contenders = 4
  /// Who has less than this part of a stall is no contender.
  private static let worthTelling = 0.01
  /// The most callers of the culprit, and parts of its time, that are named in the verdict; the tree has all.
  private static let callers = 3
  private static let parts = 3
  private static let labelWidth = 10
  /// The most chains of threads that wait for each other that are shown.
  private static let chains = 2
  /// The most other stalls of the same thread that are shown.
  private static let overlaps = 4
  /// The most labels that are shown.
  private static let labels = 5

  /// The text of `report` in `style`.
  init(_ report: StallReport, _ style: StallReport.TextStyle = StallReport.TextStyle()) {
    self.report = report
    self.style = style
    self.style.width = max(40, style.width)
  }

  /// The report in lines.
  var text: String {
    let page = Page(width: style.width, labelWidth: Self.labelWidth)
    var lines = heading(page)
    lines += verdict(page)
    lines += causes(page)
    lines += waitChains(page)
    lines += advice(page)
    lines += contenders(page)
    lines += timeline(page)
    lines += workers(page)
    lines += circumstances(page)
    if !isPool { lines += lastStack(page) }
    lines += tree(page)
    for part in [otherThreads(page), observed(page), notes(page)] where !part.isEmpty {
      if lines.last != "" { lines.append("") }
      lines += part
    }
    if lines.last == "" { lines.removeLast() }
    let text = lines.map(emphasized).joined(separator: "\n") + "\n"
    return style.isASCII ? text.inASCII : text
  }

  /// `line` with its label set off, and the whole of the answer.
  private func emphasized(_ line: String) -> String {
    guard style.hasColor, let first = line.unicodeScalars.first, ("A"..."Z").contains(first) else { return line }
    let isAnswer = line.hasPrefix("CULPRIT") || line.hasPrefix("DEADLOCK")
    let label = isAnswer ? line.count : min(Self.labelWidth, line.count)
    return Emphasis.strong.on(String(line.prefix(label)), style) + line.dropFirst(label)
  }

  private func heading(_ page: Page) -> [String] {
    let time = Formatting.duration(report.duration)
    let threshold = Formatting.duration(report.threshold)
    var what =
      "\(report.source) was stuck for \(report.isLowerBound ? "at least " : "")\(time), \(threshold) are allowed"
    if !report.hasEnded { what += "; its end was not recorded" }
    var lines = page.section("STALL", what)
    var place: [String] = []
    if let process = report.process { place.append("\(printable(process.name)) (process \(process.id))") }
    let threadName = report.thread.name.isEmpty ? "" : " \"\(printable(report.thread.name))\""
    if report.thread.id != 0 { place.append("thread \(report.thread.id)\(threadName)") }
    place.append("since \(report.began)")
    lines += page.continuation(place.joined(separator: ", "))
    return lines + [""]
  }

  private func verdict(_ page: Page) -> [String] {
    if report.verdict == .noStacks {
      return page.section("NO STACKS", "nothing can be blamed: \(report.verdictReason ?? "nothing is known")") + [""]
    }
    guard let culprit = report.culprit else { return page.section("NO SINGLE", nobody()) + [""] }
    let time = isSweep ? "" : ", \(Formatting.duration(culprit.time))"
    var lines = page.section(
      "CULPRIT",
      "\(divided())\(culprit.function.displayName)  \(Formatting.percent(culprit.share)) of \(whole)\(time)"
    )
    lines += page.continuation(place(culprit.function))
    lines += page.continuation(ActivityText.of(culprit))
    lines += page.continuation(callees(culprit))
    lines += page.continuation(spentIn(culprit))
    lines += page.continuation(callers(culprit))
    lines += page.continuation(
      "\(Formatting.count(culprit.sampleCount, isSweep ? "thread" : "sample")) of \(report.evidence.stackCount) say so; "
        + "95 % interval \(Formatting.interval(culprit.shareLow, culprit.shareHigh))"
    )
    return lines + [""]
  }

  /// Why the work did not go on.
  private func causes(_ page: Page) -> [String] {
    guard !report.causes.isEmpty else { return [] }
    var lines: [String] = []
    for (index, text) in CauseText.lines(report).enumerated() {
      lines += index == 0 ? page.section("WHY", text) : page.continuation(text)
    }
    return lines + [""]
  }

  /// What to do: the first step, or more where that is asked for.
  private func advice(_ page: Page) -> [String] {
    guard let first = report.causes.first else { return [] }
    guard style.explains else {
      return first.kind == .unknown ? [] : page.section("NEXT", first.kind.firstStep) + [""]
    }
    var lines: [String] = []
    for (index, cause) in CauseText.toExplain(report).enumerated() {
      let text = cause.kind.explanation
      lines += index == 0 ? page.section("ADVICE", text) : page.continuation(text)
    }
    return lines + [""]
  }

  /// Who held what the work waited for.
  private func waitChains(_ page: Page) -> [String] {
    let worth = report.waitChains.filter { $0.share >= Self.worthTelling }
    let lines = worth.prefix(Self.chains)
      .flatMap { chain in
        page.section(chain.isDeadlock ? "DEADLOCK" : "HOLDER", WaitChainText.heading(chain))
          + WaitChainText.lines(chain).flatMap(page.item) + [""]
      }
    let rest = page.continuation(WaitChainText.rest(worth, shown: Self.chains))
    return rest.isEmpty ? lines : lines.dropLast() + rest + [""]
  }

  private var isPool: Bool { report.source.kind == .pool }

  /// Whether the samples are threads of a pool, each seen once, instead of moments.
  private var isSweep: Bool { isPool && report.workers.isEmpty }

  /// What shares are parts of.
  private var whole: String {
    guard isPool else { return "the stall" }
    return isSweep
      ? "the occupied threads of the pool" : "the time of \(Formatting.count(report.workers.count, "pool thread"))"
  }

  /// What comes before a culprit that only divides its time between others.
  private func divided() -> String {
    let shown = report.parts.prefix(Self.parts).map { "\($0.function.displayName) \(Formatting.percent($0.share))" }
    guard let last = shown.last, shown.count > 1 else { return "" }
    let rest = report.parts.count > shown.count ? ", …" : ""
    return "divided between \(shown.dropLast().joined(separator: ", ")) and \(last)\(rest), all called by "
  }

  /// Why there is no single culprit.
  private func nobody() -> String {
    var text = "no function of the application holds half of \(whole)"
    if let dominant = report.dominant {
      text += "; the path ends in \(dominant.function.displayName), \(Formatting.percent(dominant.share))"
    }
    return text
  }

  /// What the culprit was doing: its own code and what it called.
  private func callees(_ culprit: StallReport.Finding) -> String {
    var parts: [String] = []
    let whole = culprit.time.inSeconds
    func part(_ time: Duration) -> Double { whole > 0 ? time.inSeconds / whole : 0 }
    if part(report.ownTime) >= 0.005 { parts.append("its own code \(Formatting.percent(part(report.ownTime)))") }
    // Functions of a library may have one name.
    var times: [(name: String, time: Duration)] = []
    for callee in report.callees {
      if let place = times.firstIndex(where: { $0.name == callee.function.displayName }) {
        times[place].time += callee.time
      } else {
        times.append((callee.function.displayName, callee.time))
      }
    }
    let heaviest = times.enumerated()
      .sorted { $0.element.time != $1.element.time ? $0.element.time > $1.element.time : $0.offset < $1.offset }
    for (_, callee) in heaviest.prefix(3) where part(callee.time) >= 0.005 {
      parts.append("\(callee.name) \(Formatting.percent(part(callee.time)))")
    }
    return parts.isEmpty ? "" : "of that: " + parts.joined(separator: ", ")
  }

  /// The function of a package that took the culprit's time.
  private func spentIn(_ culprit: StallReport.Finding) -> String {
    guard let taken = report.spentIn, culprit.time > .zero else { return "" }
    let part = Formatting.percent(taken.time.inSeconds / culprit.time.inSeconds)
    let package = taken.function.package.map { " of the package \(printable($0))" } ?? ""
    return "spent in: \(taken.function.displayName)\(package) \(part) (\(Formatting.origin(taken.function)))"
  }

  /// The application's functions that called the culprit, and what each has of its time.
  private func callers(_ culprit: StallReport.Finding) -> String {
    let whole = culprit.time.inSeconds
    let shown = report.callers.prefix(Self.callers).filter { $0.time.inSeconds >= 0.005 * whole }
    guard !shown.isEmpty, whole > 0 else { return "" }
    func text(_ findings: some Sequence<StallReport.Finding>) -> [String] {
      findings.map { "\($0.function.displayName) \(Formatting.percent($0.time.inSeconds / whole))" }
    }
    let rest = report.callers.count > shown.count ? ", …" : ""
    let outer = text(report.outerCallers).map { ", from " + $0 }.joined()
    return "called from: " + text(shown).joined(separator: ", ") + rest + outer
  }

  private func contenders(_ page: Page) -> [String] {
    let worth = report.contenders.filter { $0.share >= Self.worthTelling }
    let shown = worth.prefix(Self.contenders)
    guard !shown.isEmpty else { return [] }
    var lines: [String] = []
    for (index, contender) in shown.enumerated() {
      let text =
        "\(contender.function.displayName)  \(Formatting.percent(contender.share)), "
        + "\(Formatting.duration(contender.time))  (\(Formatting.origin(contender.function)))"
      lines += index == 0 ? page.section("ALSO", text) : page.continuation(text)
    }
    let rest = report.contenderCount - report.contenders.count + worth.count - shown.count
    if rest > 0 { lines += page.continuation("and \(Formatting.count(rest, "other"))") }
    return lines + [""]
  }

  /// Which function held which stretch of the stall.
  private func timeline(_ page: Page) -> [String] {
    let texts = report.timeline.map { stretch in
      let time = "\(Formatting.duration(stretch.begin)) to \(Formatting.duration(stretch.end))"
      guard let culprit = stretch.culprit else { return "\(time): no code of the application" }
      let doing = ActivityText.brief(culprit)
      let place = "\(culprit.function.displayName) (\(Formatting.origin(culprit.function)))"
      return "\(time): \(place)\(doing.isEmpty ? "" : ", \(doing)")"
    }
    let lines = texts.enumerated()
      .flatMap { index, text in index == 0 ? page.section("TIMELINE", text) : page.continuation(text) }
    return lines.isEmpty ? [] : lines + [""]
  }

  private func waitingText(_ waiting: StallReport.WaitingWork) -> String {
    guard waiting.count > 0 else { return "nothing but the watchdog's probe waited" }
    let noun = report.source.kind == .queue ? "block" : "job"
    let count = (waiting.isLowerBound ? "at least " : "") + Formatting.count(waiting.count, noun)
    let oldest = waiting.oldest.map { ", the oldest for \(Formatting.duration($0)) or longer" } ?? ""
    return "\(count) waited at a time\(oldest)"
  }

  /// What the queue did, what the application says of the work and of itself, and what else was going on.
  private func circumstances(_ page: Page) -> [String] {
    var lines: [String] = []
    var queueTexts: [String] = []
    if let queue = report.queueProgress {
      let count = queue.samples == queue.of ? "all \(queue.of)" : "\(queue.samples) of \(queue.of)"
      let text =
        queue.stoodStill
        ? "stood still: the same work waited first in \(count) samples that tell"
        : "moved on, but had more work than it could do: waiting work was taken up between \(queue.samples) of "
          + "\(queue.of) samples"
      queueTexts.append(text)
    }
    if let waiting = report.waitingWork { queueTexts.append(waitingText(waiting)) }
    for (index, text) in queueTexts.enumerated() {
      lines += index == 0 ? page.section("QUEUE", text) : page.continuation(text)
    }
    if let task = report.taskTimes {
      var parts: [String] = []
      if task.suspended > .zero {
        parts.append(
          "suspended for \(Formatting.duration(task.suspended)): no thread ran it, and the stacks say where it waited"
        )
      }
      if task.ready > .zero {
        parts.append(
          "ready for \(Formatting.duration(task.ready)), and waited for a thread: stacks of that time are those of what ran "
            + "meanwhile"
        )
      }
      lines += page.section("TASK", parts.joined(separator: "; "))
    }
    for (index, label) in report.labels.prefix(Self.labels).enumerated() {
      let text = "\(printable(label.text))  \(Formatting.percent(label.share))"
      lines += index == 0 ? page.section("LABELS", text) : page.continuation(text)
    }
    for (index, note) in notes(of: .activity).enumerated() {
      let text =
        "\"\(printable(note.title))\" for \(Formatting.duration(note.time))"
        + (note.text.isEmpty ? "" : ", \(printable(note.text))")
      lines += index == 0 ? page.section("GOING ON", text) : page.continuation(text)
    }
    for (index, note) in notes(of: .context).enumerated() {
      let title = note.title.isEmpty ? "" : "\(printable(note.title)): "
      let text = title + printable(note.text)
      lines += index == 0 ? page.section("CONTEXT", text) : page.continuation(text)
    }
    for (index, note) in report.overlaps.prefix(Self.overlaps).enumerated() {
      let time = note.time == .zero ? "" : ", for \(Formatting.duration(note.time)) of this time"
      let text =
        "\(printable(note.title)) was stuck on this thread as well\(time): the same stall, see report \(printable(note.text))"
      lines += index == 0 ? page.section("OVERLAP", text) : page.continuation(text)
    }
    // What was noted last is of the longest time.
    if let note = notes(of: .processorTime).last { lines += page.section("CPU", printable(note.text)) }
    return lines.isEmpty ? [] : lines + [""]
  }

  func notes(of kind: StallReport.Note.Kind) -> [StallReport.Note] { report.notes.filter { $0.kind == kind } }

  /// The last stack, where it says something else than the report; else only where all is wanted.
  private func lastStack(_ page: Page) -> [String] {
    guard let stack = report.lastStack, style.isFull || differs(report.lastStackBlames) else { return [] }
    let blames = report.lastStackBlames.map { "a watchdog that takes one stack would blame \($0.displayName)" }
    var lines = page.section("LAST SEEN", blames ?? "no code of the application")
    let functions = stack.functions
    let margin = page.indent + "     "
    func between(_ functions: ArraySlice<StallReport.Function>) -> String {
      margin + Formatting.fitted(Formatting.between(functions), page.textWidth - 5)
    }
    // Own code, and where the stack ends.
    let kept = functions.indices.filter { style.isFull || $0 == 0 || functions[$0].isOwn }
      .prefix(style.isFull ? functions.count : Self.lastStackFrames)
    var next = 0
    for number in kept {
      if number > next { lines.append(between(functions[next..<number])) }
      next = number + 1
      let function = functions[number]
      let head = Formatting.right("#\(number)", 4) + " "
      let room = page.textWidth - head.count
      let both = "\(function.displayName)  (\(Formatting.origin(function)))"
      lines.append(page.indent + head + Formatting.fitted(both.count <= room ? both : function.displayName, room))
    }
    if next < functions.count { lines.append(between(functions[next...])) }
    if let why = stack.missingCallers {
      lines += Formatting.wrapped("callers are missing: \(why)", page.textWidth - 5).map { margin + $0 }
    }
    return lines + [""]
  }

  /// Whether `function`, which the last stack blames, is not the one that is to blame.
  private func differs(_ function: StallReport.Function?) -> Bool {
    guard let function, let culprit = report.culprit?.function else { return report.culprit != nil || function != nil }
    return function.displayName != culprit.displayName || function.module != culprit.module
  }

  private func tree(_ page: Page) -> [String] {
    guard !report.tree.isEmpty else { return [] }
    let heading =
      isSweep
      ? "\(Formatting.count(report.evidence.stackCount, "occupied thread")), by number (- a branch, * own code)"
      : "\(Formatting.count(report.evidence.stackCount, "sample")), by time (- a branch, * own code)"
    var lines = page.section("TREE", heading)
    var tree = CallTreeText(style)
    tree.write(report.tree)
    lines += tree.lines
    return lines
  }

  /// Who is to blame on each of several threads; threads with the same culprit together.
  private func workers(_ page: Page) -> [String] {
    var groups: [(name: String?, workers: [StallReport.Worker])] = []
    for worker in report.workers {
      let name = worker.culprit?.function.displayName
      if let place = groups.firstIndex(where: { $0.name == name }) {
        groups[place].workers.append(worker)
      } else {
        groups.append((name, [worker]))
      }
    }
    groups.sort { $0.workers.count > $1.workers.count }
    var lines: [String] = []
    for (index, group) in groups.enumerated() {
      let threads =
        group.workers.count == 1
        ? "thread \(group.workers[0].thread.id)" : "\(group.workers.count) threads"
      let shares = group.workers.compactMap { $0.culprit?.share }
      var text = "\(threads): no function holds half of the time"
      if let name = group.name, let least = shares.min(), let most = shares.max() {
        let range =
          Formatting.percent(least) == Formatting.percent(most)
          ? Formatting.percent(most) : "\(Formatting.percent(least)) to \(Formatting.percent(most))"
        text = "\(threads): \(name) \(range)"
      }
      lines += index == 0 ? page.section("WORKERS", text) : page.continuation(text)
    }
    return lines.isEmpty ? [] : lines + [""]
  }

  private func otherThreads(_ page: Page) -> [String] {
    guard let others = report.otherThreads, !others.groups.isEmpty else { return [] }
    let text = ThreadsText(others)
    var lines: [String] = []
    for (index, paragraph) in text.summary("when the stall was declared").enumerated() {
      lines += index == 0 ? page.section("OTHERS", paragraph) : page.item(paragraph)
    }
    return lines
  }

  private func place(_ function: StallReport.Function) -> String {
    let module = function.moduleName.isEmpty ? "no module" : printable(function.moduleName)
    guard let location = function.location else { return "in \(module)" }
    return "at \(printable(location.description)), in \(module)"
  }

}

extension StallReport: CustomStringConvertible {
  /// The report as text, in lines of the configured width.
  public var description: String { text(width: width.characters) }

  /// The report as text: first the answer, then the evidence.
  ///
  /// - Parameters:
  ///   - width: The length of a line in characters, at least 40.
  ///   - explains: Whether it is told what to do about the causes; default: no.
  /// - Returns: The text.
  public func text(width: Int, explains: Bool = false) -> String {
    text(TextStyle(width: width, explains: explains))
  }

  /// The report as text in `style`: first the answer, then the evidence.
  public func text(_ style: TextStyle) -> String { TextReport(self, style).text }
}

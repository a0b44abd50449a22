import CulpritBlame
import CulpritStallRecord

/// A stall's blame report as text, for terminals and logs.
///
/// First the answer, then what it rests on: how long, who, what the last stack would have said, the merged call tree.
package struct TextReport: Sendable {
  /// The process that stalled, if known.
  package var process: ObservedProcess?
  /// The stall.
  package var stall: Stall
  /// Who is to blame for it.
  package var blame: Blame { didSet { names = FunctionNames(blame, others) } }
  /// The other threads by what they were doing when the stall was declared.
  package var others: [ThreadGroup] { didSet { names = FunctionNames(blame, others) } }
  /// How many stalls of the same source and culprit were counted, and not reported, since the one before.
  package var repeats: Int
  /// The modules of the process.
  package var modules: [Module]

  /// The most frames of the last stack that are shown.
  private static let lastStackFrames = 12
  /// The most contenders that are shown.
  private static let contenders = 4
  /// Who has less than this part of a stall is no contender.
  private static let worthTelling = 0.01
  /// The most callers of the culprit, and parts of its time, that are named in the verdict; the tree has all.
  private static let callers = 3
  private static let parts = 3
  private static let labelWidth = 10
  private var names: FunctionNames
  /// The most labels that are shown.
  private static let labels = 5

  /// A report on `stall`, for which `blame` was found.
  package init(
    process: ObservedProcess?,
    stall: Stall,
    blame: Blame,
    others: [ThreadGroup] = [],
    repeats: Int = 0,
    modules: [Module] = []
  ) {
    self.process = process
    self.stall = stall
    self.blame = blame
    self.others = others
    self.repeats = repeats
    self.modules = modules
    names = FunctionNames(blame, others)
  }

  /// The report in lines of at most `width` characters, but at least 40.
  package func text(width: Int = 100) -> String {
    let page = Page(width: max(40, width), labelWidth: Self.labelWidth)
    var lines = heading(page)
    lines += verdict(page)
    lines += contenders(page)
    lines += circumstances(page)
    if !isPool { lines += lastStack(page) }
    lines += tree(page)
    for part in [otherThreads(page), observed(page), notes(page)] where !part.isEmpty {
      if lines.last != "" { lines.append("") }
      lines += part
    }
    if lines.last == "" { lines.removeLast() }
    return lines.joined(separator: "\n") + "\n"
  }

  private func heading(_ page: Page) -> [String] {
    let name = "\(stall.source.kind.description) \"\(printable(stall.source.name))\""
    let time = Formatting.duration(stall.duration)
    let threshold = Formatting.duration(stall.threshold)
    let what =
      stall.hasEnded
      ? "\(name) was stuck for \(isPinged ? "at least " : "")\(time), \(threshold) are allowed"
      : "\(name) was stuck for at least \(time), \(threshold) are allowed; its end was not recorded"
    var lines = page.section("STALL", what)
    var place: [String] = []
    if let process {
      let executable = process.executable.split(separator: "/").last.map(String.init) ?? process.executable
      place.append("\(printable(executable)) (process \(process.id))")
    }
    let threadName = stall.thread.name.isEmpty ? "" : " \"\(printable(stall.thread.name))\""
    if stall.thread.id != 0 { place.append("thread \(stall.thread.id)\(threadName)") }
    place.append("since \(stall.began)")
    lines += page.continuation(place.joined(separator: ", "))
    return lines + [""]
  }

  /// Whether the stall is that of a ping: what was in its way may have begun before it was sent, an eighth of the threshold after
  /// the one before it.
  private var isPinged: Bool {
    switch stall.source.kind {
    case .queue, .pool, .executor, .pinged: true
    case .loop, .runLoop, .section, .phase, .unknown: false
    }
  }

  private func verdict(_ page: Page) -> [String] {
    switch blame.verdict {
    case .culprit(let claim):
      let share = claim.share
      let time = isPool ? "" : ", \(Formatting.duration(share.time))"
      var lines = page.section(
        "CULPRIT",
        "\(divided())\(names.name(claim.frame))  \(Formatting.percent(share.fraction)) of \(whole)\(time)"
      )
      lines += page.continuation(place(claim.frame))
      lines += page.continuation(ActivityText.of(claim, architecture: process?.architecture ?? ""))
      lines += page.continuation(doing(claim))
      lines += page.continuation(dependency(claim))
      lines += page.continuation(callers(claim))
      lines += page.continuation(
        "\(Formatting.count(claim.sampleCount, isPool ? "thread" : "sample")) of \(blame.sampleCount) say so; 95 % interval "
          + Formatting.interval(share.low, share.high)
      )
      return lines + [""]
    case .noSingleCulprit:
      return page.section("NO SINGLE", nobody()) + [""]
    case .noStacks(let why):
      return page.section("NO STACKS", "nothing can be blamed: \(why)") + [""]
    }
  }

  /// Whether the samples are threads of a pool, instead of moments of a thread.
  private var isPool: Bool { stall.source.kind == .pool }

  /// What shares are parts of.
  private var whole: String { isPool ? "the occupied threads of the pool" : "the stall" }

  /// What comes before a culprit that only divides its time between others.
  private func divided() -> String {
    let shown = blame.parts.prefix(Self.parts).map {
      "\(names.name($0.frame)) \(Formatting.percent($0.share.fraction))"
    }
    guard let last = shown.last, shown.count > 1 else { return "" }
    let rest = blame.parts.count > shown.count ? ", …" : ""
    return "divided between \(shown.dropLast().joined(separator: ", ")) and \(last)\(rest), all called by "
  }

  /// Why there is no single culprit.
  private func nobody() -> String {
    var text = "no function of the application holds half of \(whole)"
    if let dominant = blame.dominant {
      text += "; the path ends in \(names.name(dominant.frame)), \(Formatting.percent(dominant.share.fraction))"
    }
    return text
  }

  /// What the culprit was doing: its own code and what it called.
  private func doing(_ claim: Claim) -> String {
    var parts: [String] = []
    let whole = claim.share.time.inSeconds
    func part(_ time: Duration) -> Double { whole > 0 ? time.inSeconds / whole : 0 }
    if part(blame.ownTime) >= 0.005 { parts.append("its own code \(Formatting.percent(part(blame.ownTime)))") }
    // Functions of a library may have one name.
    var times: [(name: String, time: Duration)] = []
    for callee in blame.doing {
      let name = names.name(callee.frame)
      if let place = times.firstIndex(where: { $0.name == name }) {
        times[place].time += callee.share.time
      } else {
        times.append((name, callee.share.time))
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
  private func dependency(_ claim: Claim) -> String {
    guard let taken = blame.dependency, claim.share.time > .zero else { return "" }
    let part = Formatting.percent(taken.share.time.inSeconds / claim.share.time.inSeconds)
    let package = CodeOwner.package(of: taken.frame).map { " of the package \(printable($0))" } ?? ""
    return "spent in: \(names.name(taken.frame))\(package) \(part) (\(Formatting.origin(taken.frame)))"
  }

  /// The application's functions that called the culprit, and what each has of its time.
  private func callers(_ claim: Claim) -> String {
    let whole = claim.share.time.inSeconds
    let shown = blame.callers.prefix(Self.callers).filter { $0.share.time.inSeconds >= 0.005 * whole }
    guard !shown.isEmpty, whole > 0 else { return "" }
    func text(_ claims: some Sequence<Claim>) -> [String] {
      claims.map { "\(names.name($0.frame)) \(Formatting.percent($0.share.time.inSeconds / whole))" }
    }
    let rest = blame.callers.count > shown.count ? ", …" : ""
    let far = text(blame.farCallers).map { ", from " + $0 }.joined()
    return "called from: " + text(shown).joined(separator: ", ") + rest + far
  }

  private func contenders(_ page: Page) -> [String] {
    let worth = blame.contenders.filter { $0.share.fraction >= Self.worthTelling }
    let shown = worth.prefix(Self.contenders)
    guard !shown.isEmpty else { return [] }
    var lines: [String] = []
    for (index, claim) in shown.enumerated() {
      let text =
        "\(names.name(claim.frame))  \(Formatting.percent(claim.share.fraction)), "
        + "\(Formatting.duration(claim.share.time))  (\(Formatting.origin(claim.frame)))"
      lines += index == 0 ? page.section("ALSO", text) : page.continuation(text)
    }
    let rest = blame.contenderCount - blame.contenders.count + worth.count - shown.count
    if rest > 0 { lines += page.continuation("and \(Formatting.count(rest, "other"))") }
    return lines + [""]
  }

  /// What the queue did, what the application says of the work and of itself, and what else was going on.
  private func circumstances(_ page: Page) -> [String] {
    var lines: [String] = []
    switch blame.queueProgress {
    case .stoodStill(let samples, let of):
      let count = samples == of ? "all \(of)" : "\(samples) of \(of)"
      lines += page.section("QUEUE", "stood still: the same work waited first in \(count) samples that tell")
    case .moved(let between, let of):
      lines += page.section(
        "QUEUE",
        "moved on, but had more work than it could do: waiting work was taken up between \(between) of \(of) samples"
      )
    case nil: break
    }
    for (index, label) in blame.labels.prefix(Self.labels).enumerated() {
      let text = "\(printable(label.label))  \(Formatting.percent(label.share.fraction))"
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
    for note in notes(of: .processorTime) { lines += page.section("CPU", printable(note.text)) }
    return lines.isEmpty ? [] : lines + [""]
  }

  private func notes(of kind: StallNote.Kind) -> [StallNote] { stall.notes.filter { $0.kind == kind } }

  private func lastStack(_ page: Page) -> [String] {
    guard !blame.lastStack.isEmpty else { return [] }
    let blames = blame.lastStackBlames.map { "a watchdog that takes one stack would blame \(names.name($0))" }
    var lines = page.section("LAST SEEN", blames ?? "no code of the application")
    let frames = blame.lastStack.prefix(Self.lastStackFrames)
    for (number, frame) in frames.enumerated() {
      let head = Formatting.right("#\(number)", 4) + " "
      let room = page.textWidth - head.count
      let name = names.name(frame)
      let both = "\(name)  (\(Formatting.origin(frame)))"
      lines.append(page.indent + head + Formatting.fitted(both.count <= room ? both : name, room))
    }
    let rest = blame.lastStack.count - frames.count
    if rest > 0 { lines.append(page.indent + "     and \(Formatting.count(rest, "caller"))") }
    if let why = blame.lastStackEnd.explanation { lines += page.continuation("     callers are missing: \(why)") }
    return lines + [""]
  }

  private func tree(_ page: Page) -> [String] {
    guard !blame.tree.isEmpty else { return [] }
    let heading =
      isPool
      ? "\(Formatting.count(blame.sampleCount, "occupied thread")), by number (- a branch, * own code)"
      : "\(Formatting.count(blame.sampleCount, "sample")), by time (- a branch, * own code)"
    var lines = page.section("TREE", heading)
    var writer = TreeWriter(width: page.width, whole: blame.duration, names: names)
    writer.write(blame.tree, depth: 0)
    lines += writer.lines
    return lines
  }

  private func otherThreads(_ page: Page) -> [String] {
    guard let others = stall.others, !self.others.isEmpty else { return [] }
    let text = ThreadsText(others, groups: self.others, architecture: process?.architecture ?? "", names: names)
    var lines: [String] = []
    for (index, paragraph) in text.summary("when the stall was declared").enumerated() {
      lines += index == 0 ? page.section("OTHERS", paragraph) : page.item(paragraph)
    }
    return lines
  }

  /// What the observation cost the service.
  private func observed(_ page: Page) -> [String] {
    let cost = stall.cost
    guard cost != ObservationCost() else { return [] }
    var parts = ["\(Formatting.count(cost.fromOutside, "stack")) read from outside"]
    if cost.bySignal > 0 {
      parts.append(
        "\(cost.bySignal) by signal, at most \(Formatting.duration(cost.longestHandlerTime)) in a handler and "
          + "\(Formatting.duration(cost.handlerTime)) in all"
      )
    }
    if cost.withoutStack > 0 { parts.append("\(Formatting.count(cost.withoutStack, "look")) without a stack") }
    parts.append("\(Formatting.duration(cost.unwindTime)) of unwinding on a thread of Culprit's own")
    return page.section("COST", parts.joined(separator: "; "))
  }

  /// What a reader must know before believing the rest.
  private func notes(_ page: Page) -> [String] {
    var notes: [String] = []
    for note in self.notes(of: .hang) { notes.append("a hang from \(Formatting.duration(note.time)) on") }
    for note in self.notes(of: .debugger) {
      notes.append("a debugger was attached\(note.text.isEmpty ? "" : ": \(printable(note.text))")")
    }
    // What was noted last is of the longest time.
    if let note = self.notes(of: .processorTime).last { notes.append(printable(note.text)) }
    if let note = self.notes(of: .unwatched).last {
      notes.append(
        "nobody is blamed for the first \(Formatting.duration(note.time)), when the watchdog was not there yet"
      )
    }
    if repeats > 0 {
      notes.append("\(Formatting.count(repeats, "more stall")) of the same culprit were counted and not reported")
    }
    for (outcome, count) in blame.failures.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      notes.append("\(Formatting.count(count, "sample")) without a stack: \(outcome.explanation)")
    }
    for (end, count) in blame.truncations.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      let whose = count == 1 ? "1 stack without its" : "\(count) stacks without their"
      notes.append("\(whose) outermost callers: \(end.explanation ?? "")")
    }
    if blame.completedCount > 0 {
      let count = Formatting.count(blame.completedCount, "stack")
      notes.append("\(count) of those counted with stacks near in time that went through the same functions")
    }
    if blame.joinedCount > 0 {
      notes.append(
        "\(Formatting.count(blame.joinedCount, "stack")) joined: the outermost callers are those of an earlier stack, which "
          + "still lay at the same places"
      )
    }
    if stall.lostSamples > 0 {
      notes.append(
        "\(Formatting.count(Int(clamping: stall.lostSamples), "sample")) lost: the recorder or the disk could not keep up"
      )
    }
    if stall.isDamaged { notes.append("the file was cut off or damaged: samples may be missing") }
    if blame.unobserved > .zero {
      notes.append("nobody is blamed for \(Formatting.duration(blame.unobserved)) of which there are no samples")
    }
    if stall.gap > .zero {
      notes.append("\(Formatting.duration(stall.gap)) in which the process could not run are left out")
    }
    notes += MissingNames(blame.tree, modules).notes
    var lines: [String] = []
    for (index, note) in notes.enumerated() {
      lines += index == 0 ? page.section("NOTES", note) : page.continuation(note)
    }
    return lines
  }

  private func place(_ frame: ResolvedFrame) -> String {
    let module = frame.moduleName.isEmpty ? "no module" : printable(frame.moduleName)
    guard let location = frame.location else { return "in \(module)" }
    return "at \(printable(location.description)), in \(module)"
  }

}

/// The measures of a page of text.
private struct Page {
  var width: Int
  var labelWidth: Int

  var textWidth: Int { width - labelWidth }
  var indent: String { String(repeating: " ", count: labelWidth) }

  /// A labelled paragraph.
  func section(_ label: String, _ text: String) -> [String] {
    Formatting.wrapped(text, textWidth).enumerated()
      .map { index, line in
        (index == 0 ? label + String(repeating: " ", count: labelWidth - label.count) : indent) + line
      }
  }

  /// An item of a list below a labelled paragraph.
  func item(_ text: String) -> [String] {
    Formatting.wrapped(text, textWidth - 2).enumerated().map { index, line in indent + (index == 0 ? "- " : "  ") + line
    }
  }

  /// A paragraph below a labelled one; nothing for an empty text.
  func continuation(_ text: String) -> [String] { Formatting.wrapped(text, textWidth).map { indent + $0 } }
}

/// Writes a call tree, a line for each function.
private struct TreeWriter {
  /// Branches with a smaller share are summed up in a line.
  private static let smallestBranch = 0.01
  /// Deeper branches are not indented any further.
  private var deepestIndent: Int { width / 5 }

  let width: Int
  let whole: Duration
  let names: FunctionNames
  var lines: [String] = []

  /// No bar where the line is too short for it.
  private var barWidth: Int { width >= 100 ? 12 : width >= 60 ? 8 : 0 }

  mutating func write(_ nodes: [CallNode], depth: Int, isBranch: Bool = true) {
    let shown = nodes.filter { share($0.time) >= Self.smallestBranch }
    for node in shown {
      let head = figures(share: Formatting.percent(share(node.time)), time: node.time, bar: share(node.time))
      let margin = indent(depth) + (isBranch ? "- " : "  ") + (node.isApplication ? "*" : " ")
      let room = width - head.count - margin.count
      let times = node.repetitions > 1 ? " (×\(node.repetitions))" : ""
      let name = names.name(node.frame) + times
      let both = name + "  " + Formatting.origin(node.frame)
      lines.append(head + margin + Formatting.fitted(both.count <= room ? both : name, room))
      // A chain of single callees keeps its column, so that deep stacks stay readable.
      let isChain = node.children.count == 1 && node.selfTime == .zero
      write(node.children, depth: isChain ? depth : depth + 1, isBranch: !isChain)
    }
    let small = nodes.count - shown.count
    guard small > 0 else { return }
    let time = nodes.dropFirst(shown.count).reduce(Duration.zero) { $0 + $1.time }
    lines.append(
      figures(share: "", time: time, bar: 0) + indent(depth)
        + "-  \(small) \(small == 1 ? "branch" : "branches") below 1 %"
    )
  }

  private func figures(share: String, time: Duration, bar: Double) -> String {
    Formatting.right(share, 6) + " " + Formatting.right(Formatting.duration(time), 7) + " "
      + (barWidth > 0 ? Formatting.bar(bar, width: barWidth) + " " : "")
  }

  private func indent(_ depth: Int) -> String { String(repeating: " ", count: min(depth, deepestIndent)) }

  private func share(_ time: Duration) -> Double {
    whole > .zero ? time.inSeconds / whole.inSeconds : 0
  }
}

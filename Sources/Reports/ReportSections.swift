import CulpritBlame
import CulpritStallRecord

/// The sections of a report, shared by terminal output and pages.
///
/// The answer precedes the evidence. Stacks and trees are excluded, because each output format shows them differently.
package struct ReportSections: Sendable {
  private let boxed: Boxed<StallReport>
  let isFull: Bool
  let explains: Bool

  private static let contenders = 4
  private static let notable = 0.01
  private static let callers = 3
  private static let parts = 3
  private static let chains = 2
  private static let overlaps = 4
  private static let noteCharacters = 400
  private static let labels = 5

  package init(_ report: StallReport, isFull: Bool = false, explains: Bool = false) {
    boxed = Boxed(report)
    self.isFull = isFull
    self.explains = explains
  }

  var report: StallReport { boxed.value }

  package var heading: ReportSection? {
    let time = Formatting.duration(report.duration)
    let threshold = Formatting.duration(report.threshold)
    var what =
      "\(report.source) was \(notes(of: .likely).isEmpty ? "" : "likely ")stuck for \(report.isLowerBound ? "at least " : "")\(time), limit \(threshold)"
    if !report.hasEnded { what += "; no end recorded" }
    let place = EventText.place(
      process: report.process.map { ($0.name, $0.id) },
      thread: report.thread,
      began: report.began
    )
    return ReportSection("STALL", [what, place] + (group.map { [$0] } ?? []))
  }

  private var group: String? {
    guard let group = report.group else { return nil }
    let isSuspended = report.samples.last?.activity.kind == .suspended
    let function = culprit?.function ?? report.lastStackBlames
    let origin = function?.location.map { " (\($0.fileName):\($0.line))" } ?? ""
    let place = function.map { "in \($0.displayName)\(origin)" } ?? "at the same place"
    let noun = report.source.kind == .section ? "section" : "stall"
    var text = "\(Formatting.count(group.count, noun)) of this name late since \(group.since), "
    text += "\(group.atSamePlace) of them \(isSuspended ? "suspended" : "stuck") \(place)"
    let others = group.count - group.atSamePlace
    if others > 0 { text += ", \(others) at other or unknown places" }
    if group.unrecordedCount > 0 { text += "; \(group.unrecordedCount) are counted here and not recorded" }
    return text
  }

  package var culpritPlace: String? {
    culprit.map { place($0.function) }.flatMap { $0.isEmpty ? nil : $0 }
  }

  private var culprit: StallReport.Finding? { report.verdict == .noStacks ? nil : report.culprit }

  package var verdict: ReportSection? {
    guard let culprit else {
      let isUnknown = report.verdict == .noStacks || report.suspendedIn != nil
      return ReportSection(
        "CULPRIT",
        ["\(isUnknown ? "unknown" : "none"): \(nobody)", report.suspendedIn.map(suspensionEvidence) ?? ""]
      )
    }
    let time = isSweep ? "" : ", \(Formatting.duration(culprit.time))"
    return ReportSection(
      "CULPRIT",
      [
        "\(divided())\(culprit.function.displayName)  \(Formatting.percent(culprit.share)) of \(whole)\(time)",
        place(culprit.function), activity(culprit), callees(culprit), spentIn(culprit), callers(culprit),
        "\(culprit.sampleCount) of \(Formatting.count(report.evidence.stackCount, isSweep ? "thread" : "sample")); "
          + "95 % interval \(Formatting.interval(culprit.shareLow, culprit.shareHigh))",
      ]
    )
  }

  private func activity(_ culprit: StallReport.Finding) -> String {
    let isRefused = report.causes.first?.kind == .deadlock && report.waitChains.contains(where: \.canBeRefused)
    let text = isRefused ? ActivityText.ofRefused(culprit) : ActivityText.of(culprit)
    return text.isEmpty ? "the thread's state is unknown: the kernel did not report it" : text
  }

  package var causes: ReportSection? { report.causes.isEmpty ? nil : ReportSection("WHY", CauseText.lines(report)) }

  package var advice: ReportSection? {
    // A deadlock is permanent, even if another cause took more time.
    guard let first = report.causes.first(where: { $0.kind == .deadlock }) ?? report.causes.first else { return nil }
    guard explains else { return first.kind == .unknown ? nil : ReportSection("NEXT", [report.firstStep(first)]) }
    return ReportSection("ADVICE", CauseText.toExplain(report).map(\.kind.explanation))
  }

  package var waitChains: [ReportSection] {
    let worth = report.waitChains.filter { $0.share >= Self.notable }
    var sections = worth.prefix(Self.chains)
      .compactMap { chain -> ReportSection? in
        var section = ReportSection(chain.isDeadlock ? "DEADLOCK" : "HOLDER", [WaitChainText.heading(chain)])
        section?.add(items: WaitChainText.lines(chain, of: report.thread))
        return section
      }
    if let last = sections.indices.last { sections[last].add(WaitChainText.rest(worth, shown: Self.chains)) }
    return sections
  }

  var isPool: Bool { report.source.kind == .pool }

  /// Whether each sample is a pool thread that was captured once.
  var isSweep: Bool { isPool && report.workers.isEmpty }

  private var whole: String {
    guard isPool else { return "the stall" }
    return isSweep
      ? "the occupied threads of the pool" : "the time of \(Formatting.count(report.workers.count, "pool thread"))"
  }

  private func divided() -> String {
    let shown = report.parts.prefix(Self.parts).map { "\($0.function.displayName) \(Formatting.percent($0.share))" }
    guard let last = shown.last, shown.count > 1 else { return "" }
    let rest = report.parts.count > shown.count ? ", …" : ""
    return "divided between \(shown.dropLast().joined(separator: ", ")) and \(last)\(rest), all called by "
  }

  package var nobody: String {
    if report.verdict == .noStacks {
      return "no stack was captured" + Formatting.inBrackets(report.verdictReason ?? "")
    }
    if let place = report.suspendedIn {
      return "suspended in \(report.suspension(place)), \(Formatting.percent(place.share)) of the stall, "
        + Formatting.duration(place.time)
    }
    let halves = report.contenders.prefix(2)
    if halves.count == 2, halves.allSatisfy({ abs($0.share - 0.5) <= Suspects.tieMargin }) {
      let names = halves.map { "\($0.function.displayName) \(Formatting.percent($0.share))" }
      return "between \(names[0]) and \(names[1]) of \(whole)"
    }
    var text = "no application function has half of \(whole)"
    if let dominant = report.dominant {
      text += "; the path ends in \(dominant.function.displayName), \(Formatting.percent(dominant.share))"
    }
    return text
  }

  private func suspensionEvidence(_ place: StallReport.Finding) -> String {
    "no function on the stack does the work; a queue, a callback or another library does; "
      + "\(place.sampleCount) of \(Formatting.count(report.evidence.stackCount, "sample"))"
  }

  private func callees(_ culprit: StallReport.Finding) -> String {
    var parts: [String] = []
    let whole = culprit.time.inSeconds
    func part(_ time: Duration) -> Double { whole > 0 ? time.inSeconds / whole : 0 }
    if part(report.ownTime) >= 0.005 { parts.append("its own code \(Formatting.percent(part(report.ownTime)))") }
    // Combines unnamed functions of a library, which share a name.
    var times: [(name: String, time: Duration)] = []
    for callee in report.callees {
      if let place = times.firstIndex(where: { $0.name == callee.function.displayName }) {
        times[place].time += callee.time
      } else {
        times.append((callee.function.displayName, callee.time))
      }
    }
    let heaviest = times.enumerated()
      .ordered { $0.element.time != $1.element.time ? $0.element.time > $1.element.time : $0.offset < $1.offset }
    for (_, callee) in heaviest.prefix(3) where part(callee.time) >= 0.005 {
      parts.append("\(callee.name) \(Formatting.percent(part(callee.time)))")
    }
    return parts.isEmpty ? "" : "of that: " + parts.joined(separator: ", ")
  }

  private func spentIn(_ culprit: StallReport.Finding) -> String {
    guard let taken = report.spentIn, culprit.time > .zero else { return "" }
    let part = Formatting.percent(taken.time.inSeconds / culprit.time.inSeconds)
    let package = taken.function.package.map { " of the package \(printable($0))" } ?? ""
    let origin = Formatting.inBrackets(Formatting.origin(taken.function))
    return "spent in: \(taken.function.displayName)\(package) \(part)\(origin)"
  }

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

  package var contenders: ReportSection? {
    let worth = report.contenders.filter { $0.share >= Self.notable }
    let shown = worth.prefix(Self.contenders)
    var texts = shown.map { contender in
      "\(contender.function.displayName)  \(Formatting.percent(contender.share)), "
        + Formatting.duration(contender.time) + Formatting.inBrackets(Formatting.origin(contender.function))
    }
    let rest = report.contenderCount - report.contenders.count + worth.count - shown.count
    if !shown.isEmpty, rest > 0 { texts.append("and \(Formatting.count(rest, "other"))") }
    return ReportSection("ALSO", texts)
  }

  package var timeline: ReportSection? {
    let texts = report.timeline.map { stretch in
      let time = "\(Formatting.duration(stretch.begin)) to \(Formatting.duration(stretch.end))"
      guard let culprit = stretch.culprit else { return "\(time): no application code" }
      let doing = ActivityText.brief(culprit)
      return "\(time): \(Formatting.placed(culprit.function))\(doing.isEmpty ? "" : ", \(doing)")"
    }
    return ReportSection("TIMELINE", texts)
  }

  private func waitingText(_ waiting: StallReport.WaitingWork) -> String {
    guard waiting.count > 0 else { return "only the probe waited" }
    let noun = report.source.kind == .queue ? "block" : "job"
    let count = (waiting.isLowerBound ? "at least " : "") + Formatting.count(waiting.count, noun)
    let oldest = waiting.oldest.map { ", the oldest for \(Formatting.duration($0)) or longer" } ?? ""
    return "\(count) waited at a time\(oldest)"
  }

  package var circumstances: [ReportSection] {
    [queue, task, labels, activities, context, overlaps, cpuTime].compactMap { $0 }
  }

  private var queue: ReportSection? {
    var queueTexts: [String] = []
    if let queue = report.queueProgress {
      let count = queue.samples == queue.of ? "all \(queue.of)" : "\(queue.samples) of \(queue.of)"
      let text =
        queue.stoodStill
        ? "stood still: one job was first in line in \(count) samples"
        : "moved on, with more work than it could do: work was dequeued between \(queue.samples) of "
          + "\(queue.of) samples"
      queueTexts.append(text)
    }
    if let waiting = report.waitingWork { queueTexts.append(waitingText(waiting)) }
    return ReportSection("QUEUE", queueTexts)
  }

  private var task: ReportSection? {
    guard let task = report.taskTimes else { return nil }
    var parts: [String] = []
    if task.suspended > .zero {
      parts.append(
        "suspended for \(Formatting.duration(task.suspended)): its stacks show where it waited"
      )
    }
    if task.ready > .zero {
      parts.append(
        "ready for \(Formatting.duration(task.ready)), waiting for an actor or a thread: these stacks show the work that "
          + "ran meanwhile"
      )
    }
    return ReportSection("TASK", [parts.joined(separator: "; ")])
  }

  private var labels: ReportSection? {
    ReportSection(
      "LABELS",
      report.labels.prefix(Self.labels).map { "\(abridged($0.text))  \(Formatting.percent($0.share))" }
    )
  }

  private var activities: ReportSection? {
    ReportSection(
      "ACTIVITY",
      notes(of: .activity)
        .map { note in
          "\"\(abridged(note.title))\" for \(Formatting.duration(note.time))"
            + (note.text.isEmpty ? "" : ", \(sentence(note))")
        }
    )
  }

  func sentence(_ note: StallReport.Note) -> String {
    abridged(note.text, limit: isFull ? .max : Self.noteCharacters)
  }

  private var context: ReportSection? {
    ReportSection(
      "CONTEXT",
      notes(of: .context)
        .map { note in (note.title.isEmpty ? "" : "\(abridged(note.title)): ") + sentence(note) }
    )
  }

  private var overlaps: ReportSection? {
    let shown = report.overlaps.prefix(Self.overlaps)
    var texts = shown.map { note in
      guard note.kind != .meanwhile else {
        let report = note.text.isEmpty ? "" : ": see report \(printable(note.text))"
        return "\"\(abridged(note.title))\" ran meanwhile, for \(Formatting.duration(note.time)), and might hold the "
          + "awaited resource\(report)"
      }
      let time = note.time == .zero ? "" : ", for \(Formatting.duration(note.time)) of this time"
      let isSame = note.kind == .overlap
      let relation = isSame ? "at the same work\(time): the same stall, see" : "with the same label\(time): see"
      return "\(abridged(note.title)) was stuck \(relation) report \(printable(note.text))"
    }
    let rest = report.overlaps.count - shown.count
    if rest > 0 { texts.append("and \(Formatting.count(rest, "other")): the report as JSON has all") }
    return ReportSection("OVERLAP", texts)
  }

  /// Uses the last note, which covers the longest time.
  private var cpuTime: ReportSection? {
    notes(of: .cpuTime).last.flatMap { ReportSection("CPU", [printable($0.text)]) }
  }

  func notes(of kind: StallReport.Note.Kind) -> [StallReport.Note] { report.notes.filter { $0.kind == kind } }

  package var workers: ReportSection? {
    var groups: [(name: String?, workers: [StallReport.Worker])] = []
    for worker in report.workers {
      let name = worker.culprit?.function.displayName
      if let place = groups.firstIndex(where: { $0.name == name }) {
        groups[place].workers.append(worker)
      } else {
        groups.append((name, [worker]))
      }
    }
    let texts = groups.ordered { $0.workers.count > $1.workers.count }.map { group in
      let threads =
        group.workers.count == 1
        ? "thread \(group.workers[0].thread.id)" : "\(group.workers.count) threads"
      let shares = group.workers.compactMap { $0.culprit?.share }
      guard let name = group.name, let least = shares.min(), let most = shares.max() else {
        return "\(threads): no function holds half of the time"
      }
      let range =
        Formatting.percent(least) == Formatting.percent(most)
        ? Formatting.percent(most) : "\(Formatting.percent(least)) to \(Formatting.percent(most))"
      return "\(threads): \(name) \(range)"
    }
    return ReportSection("WORKERS", texts)
  }

  package var otherThreads: ReportSection? {
    guard let others = report.otherThreads, !others.groups.isEmpty else { return nil }
    let texts = ThreadsText(others).summary("when the stall was declared")
    var section = ReportSection("OTHERS", Array(texts.prefix(1)))
    section?.add(items: Array(texts.dropFirst()))
    return section
  }

  private func place(_ function: StallReport.Function) -> String {
    let module = function.moduleName.isEmpty ? "no module" : printable(function.moduleName)
    guard let location = function.location else {
      return function.isAddress(function.displayName) ? "" : "in \(module)"
    }
    return "at \(printable(location.description)), in \(module)"
  }
}

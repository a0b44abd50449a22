import CulpritStallRecord

extension ThreadsReport: CustomStringConvertible {
  /// The threads as text, in lines of the configured width.
  public var description: String { text(width: width.value) }

  /// Returns all groups with their complete stacks as text.
  ///
  /// - Parameter width: The line width in characters, at least 40.
  /// - Returns: The text.
  public func text(width: Int) -> String { text(StallReport.TextStyle(width: width)) }

  package func text(_ style: StallReport.TextStyle) -> String { ThreadsText(self).text(style) }
}

struct ThreadsText: Sendable {
  private let report: ThreadsReport
  private let work: [Int32: [ProcessDump.Work]]

  private static let namedThreads = 6
  private static let namedWork = 6
  private static let summarizedGroups = 6
  private static let summarizedFunctions = 3

  init(_ report: ThreadsReport, work: [Int32: [ProcessDump.Work]] = [:]) {
    self.report = report
    self.work = work
  }

  private var groups: [ThreadsReport.Group] { report.groups }
  private var count: Int { report.count }

  func text(_ style: StallReport.TextStyle) -> String {
    var lines = Self.wrapped(heading + shortfall, style)
    for group in groups {
      lines += [""] + Self.wrapped(title(group), style)
      if let lock = group.lock { lines += Self.wrapped(wait(lock), style, indent: 6) }
      lines += Self.lines(of: group.threads.flatMap { work[$0.id] ?? [] }, style)
      lines += Self.lines(of: group.functions, style)
      if let why = missing(group) { lines += Self.wrapped(why, style, indent: 6) }
    }
    return lines.joined(separator: "\n") + "\n"
  }

  static func wrapped(_ text: String, _ style: StallReport.TextStyle, indent: Int = 0) -> [String] {
    Formatting.wrapped(style.spelled(text), max(40, style.width) - indent)
      .map { String(repeating: " ", count: indent) + $0 }
  }

  static func lines(of functions: [StallReport.Function], _ style: StallReport.TextStyle) -> [String] {
    functions.enumerated()
      .map { number, function in
        let head = Formatting.right("#\(number)", 5) + " "
        let room = max(40, style.width) - head.count
        let both = Formatting.placed(function, gap: "  ")
        let text = style.spelled(both).count <= room ? both : function.displayName
        return head + style.fitted(text, to: room)
      }
  }

  static func lines(of work: [ProcessDump.Work], _ style: StallReport.TextStyle) -> [String] {
    let shown = work.prefix(namedWork).flatMap { wrapped($0.description, style, indent: 6) }
    let rest = work.count - namedWork
    return rest > 0 ? shown + wrapped("and \(Formatting.count(rest, "other"))", style, indent: 6) : shown
  }

  private func wait(_ lock: ThreadsReport.Lock) -> String {
    let name = lock.owner.name.isEmpty ? "" : " \"\(abridged(lock.owner.name))\""
    let owner = "thread \(lock.owner.id)\(name)"
    if lock.kind == .threadEnd { return "waiting for the end of \(owner)" }
    return "waiting for a \(WaitChainText.noun(lock.kind)), held by \(owner)"
      + (lock.hasOwnerEnded ? ", which has ended" : "")
  }

  func summary(_ when: String) -> [String] {
    var paragraphs = ["\(Formatting.count(count, "other thread")) \(when)\(shortfall)"]
    for group in groups.prefix(Self.summarizedGroups) { paragraphs.append("\(title(group)): \(place(group))") }
    let rest = groups.dropFirst(Self.summarizedGroups)
    if !rest.isEmpty {
      let threads = rest.reduce(0) { $0 + $1.threads.count }
      let places = Formatting.count(rest.count, "other place")
      paragraphs.append("\(Formatting.count(threads, "thread")) more, in \(places)")
    }
    return paragraphs
  }

  private var heading: String {
    groups.count == count
      ? Formatting.count(count, "thread")
      : "\(Formatting.count(count, "thread")), those with the same stack together"
  }

  private var shortfall: String {
    let omitted = Formatting.count(report.omittedCount, "thread")
    var text = report.omittedCount > 0 ? "; \(omitted) could not be captured" : ""
    if !report.isComplete { text += "; the capture was not finished" }
    return text
  }

  /// Returns a title such as "3 threads waiting in futex: "worker" 12, "worker" 13 and 1 other".
  private func title(_ group: ThreadsReport.Group) -> String {
    let named = group.threads.prefix(Self.namedThreads)
      .map { thread in
        thread.name.isEmpty ? "\(thread.id)" : "\"\(abridged(thread.name))\" \(thread.id)"
      }
    var names = named.joined(separator: ", ")
    let rest = group.threads.count - named.count
    if rest > 0 { names += " and \(Formatting.count(rest, "other"))" }
    let count = group.threads.count == 1 ? "" : "\(Formatting.count(group.threads.count, "thread")) "
    return "\(count)\(doing(group)): \(names)"
  }

  private func doing(_ group: ThreadsReport.Group) -> String {
    group.activity.text + (group.target.map { " on \(printable($0))" } ?? "")
  }

  /// Returns the location of a group: the innermost application functions, or else the innermost function.
  private func place(_ group: ThreadsReport.Group) -> String {
    let own = group.functions.filter(\.isOwn).prefix(Self.summarizedFunctions)
    guard own.isEmpty else {
      return "in " + own.map { Formatting.placed($0) }.joined(separator: ", from ")
    }
    guard let innermost = group.functions.first else { return noStack(group) }
    return "in \(Formatting.placed(innermost)), no application code"
  }

  private func missing(_ group: ThreadsReport.Group) -> String? {
    if group.functions.isEmpty { return noStack(group) }
    return group.missingCallers.map { "callers are missing: \($0.text)" }
  }

  private func noStack(_ group: ThreadsReport.Group) -> String {
    "no stack: \(group.noStack?.text ?? "none was captured")"
  }
}

extension StallReport.Activity {
  package var text: String {
    switch (kind, systemCall) {
    case (.computing, _): "computing"
    case (.inSystemCall, let call?): "waiting in \(call)"
    case (.inRestartedCall, let call?): "waiting in \(call) (restarted)"
    case (.inRestartedCall, nil): "waiting in a restarted system call"
    case (.inSystemCall, nil): "waiting in a system call"
    case (.blocked, _): "waiting outside a system call"
    case (.suspended, _): "suspended at an await"
    case (.enqueued, _): "ready, without a thread"
    default: "in an unknown state"
    }
  }
}

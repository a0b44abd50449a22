import CulpritStallRecord

/// All threads of a process and the work under way, at about the same time.
public struct ProcessDump: Hashable, Sendable, Codable {
  /// The process; `nil` if unknown.
  public var process: StallReport.Process?
  /// The time of the dump.
  public var time: StallReport.Timestamp
  /// The threads with their stacks, except the watchdog's threads.
  public var threads: ThreadsReport
  /// The observed work: one group for each thread with work, then the work without a thread, grouped by its waiting
  /// functions.
  public var work: [Group]
  package var width = Aside(value: 100)

  enum CodingKeys: String, CodingKey { case process, time, threads, work }

  /// Work of one thread, or work that waits in equal functions.
  public struct Group: Hashable, Sendable, Codable {
    /// The work. Without a thread, the oldest is first.
    public var work: [Work]
    /// The activity of the thread, or of the tasks without a thread.
    public var activity: StallReport.Activity
    /// The waiting functions of tasks and their async callers, innermost first. Empty for work of a thread, because
    /// ``ProcessDump/threads`` contains the stack.
    public var functions: [StallReport.Function]
  }

  /// Work under way: a loop's turn, a job, a section or an activity.
  public struct Work: Hashable, Sendable, Codable, CustomStringConvertible {
    /// The source. Activities have the kind `activity`; labelled tasks outside of other work have the kind `task`.
    public var source: StallReport.Source
    /// The label of the work; empty if there is none.
    public var label: String
    package var ageSeconds: Seconds?
    package var thresholdSeconds: Seconds?
    /// The thread that runs the work; `nil` if there is none or it is unknown.
    public var thread: StallReport.Thread?

    /// The age of the work; `nil` if unknown.
    public var age: Duration? { ageSeconds?.duration }
    /// The age at which the work is a stall; `nil` without a limit.
    public var threshold: Duration? { thresholdSeconds?.duration }

    init(_ work: WorkUnderWay, _ thread: ObservedThread?) {
      source = work.source
      label = work.label
      ageSeconds = work.age.map { Seconds($0) }
      thresholdSeconds = work.threshold.map { Seconds($0) }
      self.thread = thread.map(StallReport.Thread.init)
    }

    /// The work on one line, without its thread.
    public var description: String {
      var text = source.description + (label.isEmpty ? "" : " \"\(printable(label))\"")
      guard let age else { return text }
      text += ", \(Formatting.duration(age))"
      guard let threshold, age >= threshold else { return text }
      return text + ", stalled (limit \(Formatting.duration(threshold)))"
    }
  }

  /// The dump as one line of JSON.
  ///
  /// - Throws: `EncodingError` for a number that JSON cannot represent, which no dump contains.
  public func json() throws -> String { try encodedJSON(self) }
}

extension ProcessDump: CustomStringConvertible {
  /// The dump as text, in lines of the configured width.
  public var description: String { text(width: width.value) }

  /// Returns the dump as text.
  ///
  /// - Parameter width: The line width in characters, at least 40.
  /// - Returns: The text.
  public func text(width: Int) -> String {
    let style = StallReport.TextStyle(width: width)
    let onThreads = work.lazy.flatMap(\.work).filter { $0.thread != nil }
    let name = process.map { "\(printable($0.name)) (process \($0.id)), " } ?? ""
    var text = ThreadsText.wrapped("\(name)\(time)", style).joined(separator: "\n") + "\n\n"
    text += ThreadsText(threads, work: Dictionary(grouping: onThreads) { $0.thread?.id ?? 0 }).text(style)
    let shown = Set(threads.groups.lazy.flatMap(\.threads).map(\.id))
    for group in work where group.work.first?.thread.map({ !shown.contains($0.id) }) ?? true {
      let title = "\(Formatting.count(group.work.count, "work item")) \(group.activity.text)"
      let lines =
        [""] + ThreadsText.wrapped(title, style) + ThreadsText.lines(of: group.work, style)
        + ThreadsText.lines(of: group.functions, style)
      text += lines.joined(separator: "\n") + "\n"
    }
    return text
  }
}

package struct WorkUnderWay: Sendable {
  package var source: StallReport.Source
  package var label: String
  package var age: Duration?
  package var threshold: Duration?
  /// The thread that runs the work; 0 if there is none or it is unknown.
  package var threadID: Int32 = 0
  package var activity = ThreadActivity.unknown
  package var stack: Int?

  package init(source: StallReport.Source, label: String, age: Duration?, threshold: Duration?) {
    self.source = source
    self.label = label
    self.age = age
    self.threshold = threshold
  }
}

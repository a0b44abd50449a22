import CulpritBlackBox
import CulpritReports
import CulpritStallRecord

/// An earlier run of the service in the same directory, which is over, and how it ended.
public struct PreviousRun: Sendable, CustomStringConvertible {
  /// How a run ended.
  public typealias Verdict = RunVerdict

  /// How it ended.
  public let verdict: Verdict
  /// Its process id.
  public let process: Int32
  /// The path of its executable.
  public let executable: String
  /// When its watchdog was started.
  public let since: WallTime
  /// The fatal signal that it noted; `nil` when there was none, or none that can be noted, as SIGKILL.
  public let signal: Int32?
  /// What was stuck when it ended: a report of each stall that has no end, with the stall's duration to within a tick (250 ms)
  /// and the other threads.
  public let hangs: [StallReport]
  /// The last stacks of each of them, as many as ten.
  public let lastStacks: [[TimedStack]]
  /// The paths of the files of its stalls, those included that ended well.
  public let files: [String]
  /// A sentence for each of them that cannot be read, or only in part, and what is wrong with it.
  public let problems: [String]
  private let texts: [String]

  /// The run of `record`, which ended as `verdict` says.
  init(
    _ record: RunRecord,
    _ verdict: Verdict,
    _ stalls: BlackBoxDirectory.RunStalls,
    directory: String,
    _ settings: ReportSettings
  ) {
    self.verdict = verdict
    problems = stalls.problems.map { printable($0) }
    process = record.identity.process
    executable = record.executable
    since = record.since
    signal = record.crash?.signal
    files = stalls.saved.map { "\(directory)/\($0.name)" }
    var hangs: [StallReport] = []
    var lastStacks: [[TimedStack]] = []
    var texts: [String] = []
    for saved in stalls.saved where saved.isOpen {
      let recording = saved.file.recording
      // Another process may have its number now.
      let symbolizer = settings.symbolizer(of: recording, process: nil)
      for stall in recording.stalls where !stall.hasEnded {
        let report = settings.report(of: stall, in: recording, symbolizer)
        let last = recording.lastStacks(of: stall, resolve: symbolizer.resolve)
        hangs.append(report)
        lastStacks.append(last)
        texts.append(report.description)
        texts.append(LastStacksText(last).text(width: settings.width))
        texts += recording.textsOfOtherThreads(
          width: settings.width,
          rules: settings.rules,
          resolve: symbolizer.resolve
        )
      }
    }
    self.hangs = hangs
    self.lastStacks = lastStacks
    self.texts = texts
  }

  /// The run in a line, what cannot be read in a line each, then for each hang its report, its last stacks, and the stacks of the other threads.
  public var description: String {
    let name = executable.split(separator: "/").last.map(String.init) ?? executable
    let head = "\(name) (process \(process)), watched since \(since): \(verdict)"
    return ([printable(head) + "\n" + problems.map { $0 + "\n" }.joined()] + texts).joined(separator: "\n")
  }
}

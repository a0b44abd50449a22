import CulpritBlame
import CulpritStallRecord

enum CauseText {
  private static let notable = 0.03
  private static let most = 4

  static func lines(_ report: StallReport) -> [String] {
    let worth = report.causes.enumerated().filter { $0.offset == 0 || $0.element.share >= notable }.map(\.element)
    return worth.prefix(most).map { line($0, report) }
  }

  static func toExplain(_ report: StallReport) -> [StallReport.Cause] {
    report.causes.prefix(most).enumerated().filter { $0.offset == 0 || $0.element.share >= 0.1 }.map(\.element)
  }

  private static func line(_ cause: StallReport.Cause, _ report: StallReport) -> String {
    let text = "\(whatAndShare(cause)), \(Formatting.duration(cause.time))"
    let evidence = evidence(cause, report)
    return evidence.isEmpty ? text : "\(text): \(evidence)"
  }

  /// Returns the cause with its share of the stall, as in "computing (JSON 40 %, text 9 %), 49 %".
  static func whatAndShare(_ cause: StallReport.Cause) -> String {
    let likely = cause.isLikely && cause.kind != .unknown ? "likely " : ""
    return "\(likely)\(what(cause)), \(Formatting.percent(cause.share))"
  }

  static func what(_ cause: StallReport.Cause) -> String {
    let parts = parts(cause)
    func about(_ text: String, _ sole: (String) -> String) -> String {
      guard let parts else { return text }
      switch parts {
      case .one(let subject): return sole(subject)
      case .several(let list): return "\(text) (\(list))"
      }
    }
    func inBrackets(_ text: String) -> String { about(text) { "\(text) (\($0))" } }
    switch cause.kind {
    case .computing: return inBrackets("computing")
    case .deallocation: return "freeing objects"
    case .lock: return about("waiting for a lock") { "waiting for \($0)" }
    case .deadlock: return "a deadlock"
    case .initialization: return "waiting for an initialization by another thread"
    case .loader: return "waiting for the dynamic loader"
    case .threadEnd: return "waiting for a thread to end"
    case .signal: return about("waiting to be signalled") { "waiting for \($0)" }
    case .awaiting: return "suspended at an await"
    case .childProcess: return "waiting for a child process"
    case .interProcess: return about("waiting for the other end") { "waiting for the other end of \($0)" }
    case .network: return about("waiting for a peer") { "waiting for a peer on \($0)" }
    case .file: return inBrackets("reading or writing files")
    case .memory: return inBrackets("waiting for memory")
    case .congestion: return "congestion: more work than the threads could do"
    case .noCPU: return "runnable, no CPU"
    case .sleep:
      return about("sleeping") {
        "waiting in \($0), which sleeps and tries again"
      }
    case .unknown: return inBrackets("unknown")
    default: return "a cause of the kind \(abridged(cause.kind.rawValue))"
    }
  }

  private enum Parts {
    case one(String)
    case several(String)
  }

  private static let mostParts = 3
  /// Minimum share of a subject in its cause.
  private static let notablePart = 0.05

  private static func parts(_ cause: StallReport.Cause) -> Parts? {
    let least = cause.time * notablePart
    let shown = cause.subjects.prefix(mostParts).filter { $0.time >= least }
    guard let first = shown.first else { return nil }
    let rest = shown.reduce(cause.time) { $0 - $1.time }
    guard shown.count > 1 || rest > least else { return .one(short(first.text)) }
    var list = shown.map { "\(short($0.text)) \(Formatting.percent($0.share))" }
    if rest > least { list.append("the rest \(Formatting.percent(shown.reduce(cause.share) { $0 - $1.share }))") }
    return .several(list.joined(separator: ", "))
  }

  /// The end of a long path is more informative than its start.
  private static func short(_ text: String) -> String { text.count > 72 ? "…" + text.suffix(70) : text }

  private static func evidence(_ cause: StallReport.Cause, _ report: StallReport) -> String {
    if cause.kind == .lock || (cause.kind == .sleep && !cause.subjects.isEmpty) { return fileLocks(report) }
    guard let counts = report.counts else { return "" }
    switch cause.kind {
    case .noCPU:
      var parts: [String] = []
      if let throttled = counts.throttled, throttled > .zero {
        // Throttling stops all threads of the group, separately on each CPU.
        parts.append("throttled by the control group for \(Formatting.duration(min(throttled, cause.time)))")
      }
      if let runnable = counts.runnableThreads, let cpuCount = counts.cpuCount, runnable > cpuCount {
        parts.append("\(runnable) runnable threads on \(Formatting.count(Int(cpuCount), "CPU"))")
      }
      return parts.joined(separator: "; ")
    case .file:
      var parts: [String] = []
      if let read = counts.readBytes, read > 0 {
        let disk = counts.diskReadBytes ?? 0
        let from = disk == 0 ? "none of it from a disk" : "\(bytes(disk)) of it from a disk"
        parts.append("\(bytes(read)) read, \(from)")
      }
      if let written = counts.writtenBytes, written > 0 { parts.append("\(bytes(written)) written") }
      return parts.joined(separator: "; ")
    case .memory:
      var parts: [String] = []
      if let faults = counts.majorFaults, faults > 0 {
        parts.append("\(Formatting.count(Int(clamping: faults), "page fault")) that needed reading")
      }
      if let stalled = counts.memoryStalled, stalled > .zero {
        parts.append("memory pressure for \(Formatting.duration(stalled))")
      }
      if let again = counts.refaultedBytes, again > 0 { parts.append("\(bytes(again)) of files read again") }
      if let hits = counts.memoryLimitHits, hits > 0 {
        parts.append("memory limit of the control group met \(Formatting.count(Int(clamping: hits), "time"))")
      }
      return parts.joined(separator: "; ")
    case .congestion:
      guard let waiting = report.waitingWork, waiting.count > 0 else { return "" }
      return "up to \(Formatting.count(waiting.count, "piece")) of work waited at a time"
    case .signal:
      guard report.source.kind == .pool, cause.share > 0.95, let waiting = report.waitingWork, waiting.count > 0 else {
        return ""
      }
      return "every thread of the pool waits and jobs are queued: a deadlock if only a queued job can signal"
    default: return ""
    }
  }

  private static func fileLocks(_ report: StallReport) -> String {
    let notes = report.notes.filter { $0.kind == .fileLock }
    let shown = notes.prefix(2).map { "\(short(printable($0.text))) is locked by \(printable($0.title))" }
    return shown.joined(separator: "; ") + (notes.count > shown.count ? "; …" : "")
  }

  private static func bytes(_ count: UInt64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"]
    var value = Double(count)
    var unit = 0
    while value >= 1000, unit < units.count - 1 {
      value /= 1000
      unit += 1
    }
    return unit == 0 || value >= 100
      ? "\(Int(value.rounded())) \(units[unit])" : "\(Formatting.fixed(value, decimals: 1)) \(units[unit])"
  }
}

import CulpritStallRecord

/// Describes a thread's activity.
enum ActivityText {
  private static let nearlyAll = 0.8
  private static let hardly = 0.2

  static func of(_ finding: StallReport.Finding) -> String {
    var parts: [String] = []
    if let use = finding.cpuUse { parts.append(cpu(use, finding.waiting)) }
    if let waiting = finding.waiting, waiting.suspended > 0 {
      let isAll = waiting.suspended == waiting.of && finding.cpuUse == nil
      parts.append(
        "\(isAll ? "waiting: " : "")its task was suspended in \(waiting.suspended) of \(Formatting.count(waiting.of, "sample"))"
      )
    }
    if let waiting = finding.waiting, waiting.samples > waiting.suspended {
      var text = "blocked in \(waiting.samples - waiting.suspended) of \(Formatting.count(waiting.of, "sample"))"
      if let call = waiting.systemCall { text += ", mostly in \(call)" }
      if waiting.systemCall != nil, let target = waiting.target { text += " on \(printable(target))" }
      parts.append(text)
    }
    // Samples that are not neighbours, or belong to several threads, have no interval with a known CPU use.
    if parts.isEmpty, let waiting = finding.waiting, waiting.of > 0 {
      parts.append("computing: running or runnable in \(Formatting.count(waiting.of, "sample"))")
    }
    return parts.joined(separator: "; ")
  }

  /// Returns the activity in a deadlock in which the kernel refuses the wait and the thread repeats it.
  static func ofRefused(_ finding: StallReport.Finding) -> String {
    let isSpinning =
      finding.cpuUse.map { $0.share + ($0.runnableShare ?? 0) >= nearlyAll }
      ?? finding.waiting.map { $0.of > 0 && $0.samples == 0 } ?? false
    guard isSpinning else { return of(finding) }
    let use = finding.cpuUse.map { ", on CPU \(Formatting.percent($0.share))" } ?? ""
    return "waiting: it repeated a wait that the kernel refuses\(use)"
  }

  static func brief(_ finding: StallReport.Finding) -> String {
    let waiting = finding.waiting.flatMap { $0.of > 0 ? $0 : nil }
    let found = waiting.map { Double($0.samples) / Double($0.of) }
    if let waiting, 2 * waiting.suspended > waiting.of { return "suspended" }
    let isReady = finding.cpuUse.map { $0.share + ($0.runnableShare ?? 0) >= nearlyAll } ?? false
    if isReady || found.map({ $0 <= hardly }) ?? false { return "computing" }
    guard let found else { return "" }
    guard found >= nearlyAll, let waiting else { return "computing and waiting in turn" }
    guard let call = waiting.systemCall else { return "waiting" }
    return "waiting in \(call)" + (waiting.target.map { " on \(printable($0))" } ?? "")
  }

  static func cpu(_ use: StallReport.CPUUse, _ waiting: StallReport.Waiting?) -> String {
    let share = Formatting.percent(use.share)
    if use.share >= nearlyAll { return "computing: on CPU \(share)" }
    guard let delay = use.runnableShare else { return withoutDelay(use.share, waiting) }
    let turn = Formatting.percent(delay)
    if use.share + delay >= nearlyAll, delay > hardly / 2 {
      return "computing: on CPU \(share), runnable but waiting for a CPU \(turn)"
    }
    let rest = delay > hardly / 2 ? ", runnable but waiting for a CPU \(turn)" : ""
    if use.share + delay <= hardly { return "waiting: on CPU \(share)" }
    if use.share <= hardly / 10 { return "waiting: on CPU \(share)\(rest)" }
    return "computing and waiting in turn: on CPU \(share)\(rest)"
  }

  /// Returns the activity if the time without a CPU is unknown. Only sampled states then distinguish waiting for a CPU
  /// from other waiting.
  private static func withoutDelay(_ share: Double, _ waiting: StallReport.Waiting?) -> String {
    let text = "on CPU \(Formatting.percent(share))"
    guard let waiting, waiting.of > 0 else { return text }
    let found = Double(waiting.samples) / Double(waiting.of)
    if found <= hardly { return "computing: \(text); time without a CPU unknown" }
    if share <= hardly, found >= nearlyAll { return "waiting: \(text)" }
    return "computing and waiting in turn: \(text)"
  }
}

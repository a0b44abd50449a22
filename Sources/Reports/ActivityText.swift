import CulpritStallRecord

/// What a thread was doing, in words: computing, waiting for something, or waiting for a processor, which is neither.
enum ActivityText {
  /// From this share of the time on it did so all the time, as far as a reader needs to know.
  private static let nearlyAll = 0.8
  /// Up to this share it did not.
  private static let hardly = 0.2

  /// How `finding`'s function spent its time; empty where nothing is known.
  static func of(_ finding: StallReport.Finding) -> String {
    var parts: [String] = []
    if let use = finding.processorUse { parts.append(processor(use, finding.waiting)) }
    if let waiting = finding.waiting, waiting.suspended > 0 {
      let isAll = waiting.suspended == waiting.of && finding.processorUse == nil
      parts.append(
        "\(isAll ? "waiting: " : "")its task was suspended in \(waiting.suspended) of \(Formatting.count(waiting.of, "sample"))"
      )
    }
    if let waiting = finding.waiting, waiting.samples > waiting.suspended {
      var text = "found waiting in \(waiting.samples - waiting.suspended) of \(Formatting.count(waiting.of, "sample"))"
      if let call = waiting.systemCall { text += ", mostly in \(call)" }
      if waiting.systemCall != nil, let target = waiting.target { text += " on \(printable(target))" }
      parts.append(text)
    }
    // Its samples are no neighbours, or of several threads: no time between two of them is known to be its own.
    if parts.isEmpty, let waiting = finding.waiting, waiting.of > 0 {
      parts.append("computing: found on a processor, or ready for one, in \(Formatting.count(waiting.of, "sample"))")
    }
    return parts.joined(separator: "; ")
  }

  /// How `finding`'s function spent its time in a deadlock that the kernel refuses to wait in: the thread repeats the wait, and computes
  /// nothing.
  static func ofRefused(_ finding: StallReport.Finding) -> String {
    let isSpinning =
      finding.processorUse.map { $0.share + ($0.delay ?? 0) >= nearlyAll }
      ?? finding.waiting.map { $0.of > 0 && $0.samples == 0 } ?? false
    guard isSpinning else { return of(finding) }
    let use = finding.processorUse.map { ", and used a processor \(Formatting.percent($0.share)) of that time" } ?? ""
    return "waiting: it repeated a wait that the kernel refuses\(use)"
  }

  /// The same in a word or two.
  static func brief(_ finding: StallReport.Finding) -> String {
    let waiting = finding.waiting.flatMap { $0.of > 0 ? $0 : nil }
    let found = waiting.map { Double($0.samples) / Double($0.of) }
    if let waiting, 2 * waiting.suspended > waiting.of { return "suspended" }
    let isReady = finding.processorUse.map { $0.share + ($0.delay ?? 0) >= nearlyAll } ?? false
    if isReady || found.map({ $0 <= hardly }) ?? false { return "computing" }
    guard let found else { return "" }
    guard found >= nearlyAll, let waiting else { return "computing and waiting in turn" }
    guard let call = waiting.systemCall else { return "waiting" }
    return "waiting in \(call)" + (waiting.target.map { " on \(printable($0))" } ?? "")
  }

  /// What the thread was doing, from how it spent its time and how often it was found waiting.
  static func processor(_ use: StallReport.ProcessorUse, _ waiting: StallReport.Waiting?) -> String {
    let share = Formatting.percent(use.share)
    if use.share >= nearlyAll { return "computing: it used a processor \(share) of that time" }
    guard let delay = use.delay else { return withoutDelay(use.share, waiting) }
    let turn = Formatting.percent(delay)
    // What it had no processor for is most of what it did not compute.
    if use.share + delay >= nearlyAll, delay > hardly / 2 {
      return "computing, but had a processor for \(share) of that time (it waited \(turn) for its turn)"
    }
    let rest = delay > hardly / 2 ? ", and waited \(turn) for its turn" : ""
    if use.share + delay <= hardly { return "waiting: it used a processor \(share) of that time" }
    if use.share <= hardly / 10 { return "waiting: it used a processor \(share) of that time\(rest)" }
    return "computing and waiting in turn: it used a processor \(share) of that time\(rest)"
  }

  /// The same where the kernel does not tell how long the thread had no processor: only what it was found doing shows whether it
  /// waited for one, or for something else.
  private static func withoutDelay(_ share: Double, _ waiting: StallReport.Waiting?) -> String {
    let text = "it used a processor \(Formatting.percent(share)) of that time"
    guard let waiting, waiting.of > 0 else { return text }
    let found = Double(waiting.samples) / Double(waiting.of)
    if found <= hardly { return "computing: \(text); how long it waited for its turn is not known" }
    if share <= hardly, found >= nearlyAll { return "waiting: \(text)" }
    return "computing and waiting in turn: \(text)"
  }
}

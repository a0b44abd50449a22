import Culprit
import Foundation

/// Facts about one stalled trial, measured by the program itself.
package struct BlameTruth: Sendable {
  /// Work that the trial ran, and its measured times in nanoseconds.
  package struct Part: Sendable {
    /// The function's name without its arguments.
    package var name: String
    /// Identifiers that only this kind of work uses.
    package var identifiers: [String]
    package var begin: UInt64
    package var end: UInt64
    /// CPU time of the thread.
    package var running: UInt64
    /// Time in which the thread was runnable without a CPU.
    package var delayed: UInt64

    package var length: UInt64 { end - begin }

    package init(name: String, identifiers: [String], begin: UInt64, end: UInt64, running: UInt64, delayed: UInt64) {
      (self.name, self.identifiers, self.begin, self.end) = (name, identifiers, begin, end)
      (self.running, self.delayed) = (running, delayed)
    }
  }

  package var number: Int
  /// The work in order of execution. The first part is the culprit, unless the trial is divided.
  package var parts: [Part]
  /// Whether no part was planned to take half of the stall.
  package var isDivided: Bool
  /// Identifiers of work that no thread ran during the trial.
  package var absent: Set<String>
  /// Functions that the optimizer can merge into one.
  package var mergeable: Set<String>
  /// The dependency's function that took the culprit's time; `nil` if the culprit spent it itself.
  package var dependency: String?

  package init(
    number: Int,
    parts: [Part],
    isDivided: Bool,
    absent: Set<String> = [],
    mergeable: Set<String> = [],
    dependency: String? = nil
  ) {
    (self.number, self.parts, self.isDivided) = (number, parts, isDivided)
    (self.absent, self.mergeable, self.dependency) = (absent, mergeable, dependency)
  }

  func share(_ index: Int) -> Double {
    let length = (parts.last?.end ?? 0) - (parts.first?.begin ?? 0)
    return Double(parts[index].length) / Double(max(1, length))
  }
}

/// Compares a report with the truth of its trial.
package struct BlameJudgement {
  private let trial: BlameTruth
  private let report: StallReport?
  private let text: String

  /// - Parameters:
  ///   - trial: The truth.
  ///   - report: The report of the trial's stall; `nil` if there was none.
  package init(_ trial: BlameTruth, report: StallReport?) {
    self.trial = trial
    self.report = report
    // Wide enough for unwrapped lines.
    text = report?.text(width: 1000) ?? ""
  }

  private var first: BlameTruth.Part { trial.parts[0] }
  private var truth: Double { trial.share(0) }

  /// Whether the last stack names the culprit, although other work ran last.
  private var lastStackNamesCulprit: Bool {
    mentionsCulprit(lastSeen) && !mentions(lastSeen, trial.parts[trial.parts.count - 1])
  }

  /// The true share of the function in the headline: the sum of all parts that the optimizer merged into it.
  private var truthOfNamed: Double { isMergeable && culprit.contains(" like it") ? truthOfMerged : truth }

  /// The true share of all parts that the optimizer may have merged.
  private var truthOfMerged: Double {
    trial.parts.indices.filter { trial.mergeable.contains(trial.parts[$0].name) }.reduce(0) { $0 + trial.share($1) }
  }

  /// The judgement as one line of `name=value` fields, separated by tabs.
  package var line: String {
    var fields: [(String, String)] = [
      ("trial", "\(trial.number)"), ("first", first.name),
      ("then", trial.parts.dropFirst().map(\.name).joined(separator: ",")),
      ("divided", trial.isDivided ? "1" : "0"), ("truth", percent(truth)), ("verdict", verdict),
    ]
    guard let report else { return Self.joined(fields) }
    let invented = Self.identifiers(in: textOfNames).intersection(trial.absent).sorted().joined(separator: ",")
    fields += [
      ("headline", headline), ("invented", invented), ("last", lastStackNamesCulprit ? "1" : "0"),
      ("samples", samples(report)), ("ends", "\(report.evidence.missingCallers.reduce(0) { $0 + $1.count })"),
      ("roots", roots(report)),
    ]
    if verdict == "named" {
      fields += [("error", percent(share(report) - truthOfNamed)), ("state", state), ("words", words)]
      fields.append(("state_right", allowedStates.contains(reportedState) ? "1" : "0"))
    }
    if namesFunction { fields.append(("name_right", isNameGood ? "1" : "0")) }
    if let dependency = trial.dependency, !trial.isDivided {
      fields.append(("dependency", Self.identifiers(in: head.joined(separator: " ")).contains(dependency) ? "1" : "0"))
    }
    return Self.joined(fields)
  }

  /// "named" if the report names the culprit or, for a divided trial, the division and all parts.
  private var verdict: String {
    guard report != nil else { return "unreported" }
    // Delays changed the shares so much that the planned trial did not take place.
    if trial.isDivided != (trial.parts.indices.allSatisfy { trial.share($0) < 0.5 }) || !trial.isDivided && truth < 0.5
    {
      return "void"
    }
    let namesNothing = !namesFunction
    if trial.isDivided {
      let parts = trial.parts.filter { mentions(head.joined(separator: " "), $0) }
      // A merged function can have half of the stall although none of its sources has.
      let isMerged = culprit.contains(" like it") && truthOfMerged >= 0.5
      return (namesNothing || headline.contains("divided") || isMerged) && parts.count == trial.parts.count
        ? "named" : "other"
    }
    if namesNothing { return "none" }
    return mentionsCulprit(culprit) && !culprit.hasPrefix("std::") && !culprit.contains(" std::") ? "named" : "other"
  }

  private func mentionsCulprit(_ text: String) -> Bool { mentions(text, first) }

  /// Whether `text` mentions `part`, or a function that the optimizer merged with it.
  private func mentions(_ text: String, _ part: BlameTruth.Part) -> Bool {
    let identifiers = Self.identifiers(in: text)
    if !identifiers.isDisjoint(with: part.identifiers) { return true }
    return trial.mergeable.contains(part.name) && text.contains(" like it")
      && !identifiers.isDisjoint(with: trial.mergeable)
  }

  /// Whether the optimizer may have merged the culprit with other functions.
  private var isMergeable: Bool { trial.mergeable.contains(first.name) }

  /// Whether the verdict names a function.
  private var namesFunction: Bool {
    headline.hasPrefix("CULPRIT ") && !["none: ", "unknown: "].contains { headline.hasPrefix("CULPRIT " + $0) }
  }

  /// The verdict's first line.
  private var headline: String { head.first ?? "" }

  /// The lines between the first paragraph and the last stack: the verdict, and other functions with a share.
  private var head: [String] {
    text.split(separator: "\n", omittingEmptySubsequences: false).drop { !$0.isEmpty }.filter { !$0.isEmpty }
      .prefix { line in !["LAST SEEN", "TREE", "OTHERS", "COST"].contains { line.hasPrefix($0) } }
      .map { $0.split(separator: " ").joined(separator: " ") }
  }

  /// The culprit's name, without the names of its callees.
  private var culprit: String {
    guard namesFunction else { return "" }
    let name = headline.ranges(of: ", all called by ").last.map { headline[$0.upperBound...] } ?? headline.dropFirst(8)
    return (name.firstMatch(of: /\ [<>]?[0-9]+\ %\ of\ /).map { name[..<$0.range.lowerBound] } ?? name).description
  }

  /// Whether the culprit's name can come from source code: no compiler or linker terms, at most 100 characters.
  private var isNameGood: Bool {
    let strange = [
      "top-level code", "thunk", "Swift.", "-> (", "unsafeMutableAddressor", "__deallocating_deinit", "@GLIBC",
      "specialized", "partial apply", "outlined", "implicit closure", "0x",
    ]
    let name = culprit.split(separator: " or a function like it").first ?? ""
    return name.count <= 100 && !strange.contains { culprit.contains($0) }
  }

  /// The report without names of merged functions, which also represent other functions.
  private var textOfNames: String {
    text.split(separator: "\n")
      .map { line -> String in
        guard line.contains(" like it") else { return String(line) }
        let names = line.split(separator: /, from |: in |, |\* ?|  +/)
        return names.filter { !$0.contains(" like it") }.joined(separator: "\n")
      }
      .joined(separator: "\n")
  }

  private var lastSeen: String {
    text.split(separator: "\n").first { $0.hasPrefix("LAST SEEN") }.map(String.init) ?? ""
  }

  /// The reported share of the culprit: from the verdict, or from the tree if the verdict names a callee of the
  /// culprit.
  private func share(_ report: StallReport) -> Double {
    let base = culprit.prefix { $0 != "(" && $0 != "<" }.split { $0 == "." || $0 == ":" || $0 == " " }.last ?? ""
    if base == first.name || isMergeable, let share = report.culprit?.share { return share }
    var found = 0.0
    var nodes = report.tree[...]
    while let node = nodes.popFirst() {
      if mentionsCulprit(node.function.name) { found += node.share } else { nodes.append(contentsOf: node.children) }
    }
    return found
  }

  /// The numbers of samples and of incomplete stacks of each kind of work.
  private func samples(_ report: StallReport) -> String {
    var counts: [String: (all: Int, cut: Int)] = [:]
    for sample in report.samples where sample.noStack == nil {
      let time = first.begin + UInt64(max(.zero, sample.age) / .nanoseconds(1))
      guard let part = trial.parts.first(where: { time < $0.end }) ?? trial.parts.last else { continue }
      counts[part.name, default: (0, 0)].all += 1
      if sample.missingCallers != nil { counts[part.name, default: (0, 0)].cut += 1 }
    }
    return counts.sorted { $0.key < $1.key }.map { "\($0.key):\($0.value.all):\($0.value.cut)" }.joined(separator: ",")
  }

  /// Outermost functions of stacks, except functions that start threads.
  private func roots(_ report: StallReport) -> String {
    report.tree.map(\.function.name).filter { !$0.contains("clone") && !$0.contains("start") }
      .map { $0.prefix(60).description }.joined(separator: ";")
  }

  // MARK: The state

  private enum State: String { case computing, delayed, inTurn, waiting, nothing }

  /// The reported state of the culprit.
  private var words: String { head.first { $0.hasPrefix("computing") || $0.hasPrefix("waiting") } ?? "" }

  private var reportedState: State {
    if words.hasPrefix("computing and waiting") { return .inTurn }
    if words.hasPrefix("computing:"), words.contains("runnable but waiting") { return .delayed }
    if words.hasPrefix("computing") { return .computing }
    return words.hasPrefix("waiting") ? .waiting : .nothing
  }

  /// States that agree with the measured times. Near a limit, two states agree.
  private var allowedStates: Set<State> {
    let part = first
    let running = Double(part.running) / Double(max(1, part.length))
    let ready = running + Double(part.delayed) / Double(max(1, part.length))
    var states: Set<State> = []
    if running >= 0.72 { states.insert(.computing) }
    if ready >= 0.72, running <= 0.88 { states.insert(.delayed) }
    if ready >= 0.12, ready <= 0.88 { states.insert(.inTurn) }
    if ready <= 0.28 || running <= 0.03 && ready < 0.8 { states.insert(.waiting) }
    return states
  }

  private var state: String {
    let part = first
    let whole = Double(max(1, part.length))
    return "ran \(percent(Double(part.running) / whole)) delayed \(percent(Double(part.delayed) / whole))"
  }

  // MARK: Text

  private func percent(_ fraction: Double) -> String { String(format: "%.1f", fraction * 100) }

  static func identifiers(in text: String) -> Set<String> {
    Set(text.split { !$0.isASCII || !($0.isLetter || $0.isNumber || $0 == "_") }.map(String.init))
  }

  static func joined(_ fields: [(String, String)]) -> String {
    fields.map { "\($0.0)=\($0.1.replacingOccurrences(of: "\t", with: " "))" }.joined(separator: "\t")
  }
}

import Culprit
import Foundation

/// What a report says, beside what was the case.
struct Judgement {
  private let trial: Trial
  private let course: Trial.Course
  /// The identifiers of the kinds that no thread ran while the trial lasted.
  private let absent: Set<String>
  private let report: StallReport?
  private let text: String

  init(_ trial: Trial, _ course: Trial.Course, report: StallReport?, absent: Set<String>) {
    self.trial = trial
    self.course = course
    self.report = report
    self.absent = absent
    // Lines that nothing breaks.
    text = report?.text(width: 1000) ?? ""
  }

  private var first: Kind { trial.parts[0].kind }
  private var isDivided: Bool { trial.parts[0].share < 0.5 }
  private var truth: Double { course.share(0) }

  /// Whether the last stack names A, which is not what ran last.
  private var isLastOurs: Bool { isOurs(lastSeen) && !tells(lastSeen, of: trial.parts[trial.parts.count - 1].kind) }

  /// What those had of whom the report speaks: of functions that the compiler has made one of, all that the trial has.
  private var truthOfNamed: Double { isAlike && culprit.contains(" like it") ? truthOfMerged : truth }

  /// What the functions had together that the compiler may have made one of.
  private var truthOfMerged: Double {
    let alike = Kind.alike.map(\.name)
    return trial.parts.indices.filter { alike.contains(trial.parts[$0].kind.name) }.reduce(0) { $0 + course.share($1) }
  }

  /// The judgement as one line: `name=value`, with tabs in between.
  var line: String {
    var fields: [(String, String)] = [
      ("trial", "\(trial.number)"), ("first", first.name),
      ("then", trial.parts.dropFirst().map(\.kind.name).joined(separator: ",")),
      ("divided", isDivided ? "1" : "0"), ("truth", percent(truth)), ("verdict", verdict),
    ]
    guard let report else { return Self.joined(fields) }
    let invented = Self.identifiers(in: textOfNames).intersection(absent).sorted().joined(separator: ",")
    fields += [
      ("headline", headline), ("invented", invented), ("last", isLastOurs ? "1" : "0"),
      ("samples", samples(report)), ("ends", "\(report.evidence.missingCallers.reduce(0) { $0 + $1.count })"),
      ("roots", roots(report)),
    ]
    if verdict == "named" {
      fields += [("error", percent(share(report) - truthOfNamed)), ("state", state), ("words", words)]
      fields.append(("state_right", allowedStates.contains(said) ? "1" : "0"))
    }
    if isSomebody { fields.append(("name_right", isNameGood ? "1" : "0")) }
    if let squeezer = Kind.squeezers[first.name], !isDivided {
      fields.append(("dependency", Self.identifiers(in: head.joined(separator: " ")).contains(squeezer) ? "1" : "0"))
    }
    return Self.joined(fields)
  }

  /// "named" where the report names A; where nobody has half, "named" is that it says so and tells who has what.
  private var verdict: String {
    guard report != nil else { return "unreported" }
    // What a neighbour holds up longer than it was to take.
    if isDivided != (trial.parts.indices.allSatisfy { course.share($0) < 0.5 }) || !isDivided && truth < 0.5 {
      return "void"
    }
    let isNobody = !isSomebody
    if isDivided {
      let parts = trial.parts.filter { tells(head.joined(separator: " "), of: $0.kind) }
      // One function for the compiler may have half, though none of those that were written has.
      let isMerged = culprit.contains(" like it") && truthOfMerged >= 0.5
      return (isNobody || headline.contains("divided") || isMerged) && parts.count == trial.parts.count
        ? "named" : "other"
    }
    if isNobody { return "nobody" }
    return isOurs(culprit) && !culprit.hasPrefix("std::") && !culprit.contains(" std::") ? "named" : "other"
  }

  /// Whether `text` speaks of A, or says that it may.
  private func isOurs(_ text: String) -> Bool { tells(text, of: first) }

  /// Whether `text` speaks of `kind`, or says that it may: where the compiler made one function of it and others.
  private func tells(_ text: String, of kind: Kind) -> Bool {
    let identifiers = Self.identifiers(in: text)
    if !identifiers.isDisjoint(with: kind.identifiers) { return true }
    let alike = Kind.alike.map(\.name)
    return alike.contains(kind.name) && text.contains(" like it") && !identifiers.isDisjoint(with: alike)
  }

  /// Whether the compiler made one function of A and others.
  private var isAlike: Bool { Kind.alike.contains { $0.name == first.name } }

  /// Whether the report blames a function.
  private var isSomebody: Bool {
    headline.hasPrefix("CULPRIT ") && !["none: ", "unknown: "].contains { headline.hasPrefix("CULPRIT " + $0) }
  }

  /// The verdict's first line.
  private var headline: String { head.first ?? "" }

  /// The verdict and who else had a share: what is between the first paragraph and the last stack.
  private var head: [String] {
    text.split(separator: "\n", omittingEmptySubsequences: false).drop { !$0.isEmpty }.filter { !$0.isEmpty }
      .prefix { line in !["LAST SEEN", "TREE", "OTHERS", "COST"].contains { line.hasPrefix($0) } }
      .map { $0.split(separator: " ").joined(separator: " ") }
  }

  /// The culprit's name, without those of the parts that it divides its time between.
  private var culprit: String {
    guard isSomebody else { return "" }
    let name = headline.ranges(of: ", all called by ").last.map { headline[$0.upperBound...] } ?? headline.dropFirst(8)
    return (name.firstMatch(of: /\ [<>]?[0-9]+\ %\ of\ /).map { name[..<$0.range.lowerBound] } ?? name).description
  }

  /// Whether the culprit's name is one that people write: neither a compiler's word nor a linker's, no longer than a line.
  private var isNameGood: Bool {
    let strange = [
      "top-level code", "thunk", "Swift.", "-> (", "unsafeMutableAddressor", "__deallocating_deinit", "@GLIBC",
      "specialized", "partial apply", "outlined", "implicit closure", "0x",
    ]
    let name = culprit.split(separator: " or a function like it").first ?? ""
    return name.count <= 100 && !strange.contains { culprit.contains($0) }
  }

  /// The report without the names that it says to stand for others too, because the compiler made one function of several.
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

  /// The share that the report gives A: the culprit's, or that of A in the tree where something in A is the culprit.
  private func share(_ report: StallReport) -> Double {
    let base = culprit.prefix { $0 != "(" && $0 != "<" }.split { $0 == "." || $0 == ":" || $0 == " " }.last ?? ""
    if base == first.name || isAlike, let share = report.culprit?.share { return share }
    var found = 0.0
    var nodes = report.tree[...]
    while let node = nodes.popFirst() {
      if isOurs(node.function.name) { found += node.share } else { nodes.append(contentsOf: node.children) }
    }
    return found
  }

  /// For each kind how many samples fell on it, and how many of their stacks end early.
  private func samples(_ report: StallReport) -> String {
    var counts: [String: (all: Int, cut: Int)] = [:]
    for sample in report.samples where sample.noStack == nil {
      let time = course.begin + UInt64(max(.zero, sample.age) / .nanoseconds(1))
      guard let part = course.parts.first(where: { time < $0.end }) ?? course.parts.last else { continue }
      counts[part.kind.name, default: (0, 0)].all += 1
      if sample.missingCallers != nil { counts[part.kind.name, default: (0, 0)].cut += 1 }
    }
    return counts.sorted { $0.key < $1.key }.map { "\($0.key):\($0.value.all):\($0.value.cut)" }.joined(separator: ",")
  }

  /// Where stacks begin that do not begin where threads do.
  private func roots(_ report: StallReport) -> String {
    report.tree.map(\.function.name).filter { !$0.contains("clone") && !$0.contains("start") }
      .map { $0.prefix(60).description }.joined(separator: ";")
  }

  // MARK: The state

  private enum State: String { case computing, delayed, inTurn, waiting, nothing }

  /// What the report says A was doing.
  private var words: String { head.first { $0.hasPrefix("computing") || $0.hasPrefix("waiting") } ?? "" }

  private var said: State {
    if words.hasPrefix("computing and waiting") { return .inTurn }
    if words.contains("had a processor for") || words.contains("without a processor") { return .delayed }
    if words.hasPrefix("computing") { return .computing }
    return words.hasPrefix("waiting") ? .waiting : .nothing
  }

  /// What may be said of what was measured; near a limit, either.
  private var allowedStates: Set<State> {
    let part = course.parts[0]
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
    let part = course.parts[0]
    let whole = Double(max(1, part.length))
    return "ran \(percent(Double(part.running) / whole)) delayed \(percent(Double(part.delayed) / whole))"
  }

  // MARK: Text

  private func percent(_ fraction: Double) -> String { String(format: "%.1f", fraction * 100) }

  /// The words of `text` that may be identifiers.
  static func identifiers(in text: String) -> Set<String> {
    Set(text.split { !$0.isASCII || !($0.isLetter || $0.isNumber || $0 == "_") }.map(String.init))
  }

  static func joined(_ fields: [(String, String)]) -> String {
    fields.map { "\($0.0)=\($0.1.replacingOccurrences(of: "\t", with: " "))" }.joined(separator: "\t")
  }
}

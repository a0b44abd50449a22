/// The judgement of one report, read from a line of ``BlameJudgement``.
package struct BlameVerdict {
  /// The build, and whether the machine was busy.
  package var place: String
  private var fields: [String: String]

  /// Reads a line of `name=value` fields, separated by tabs. Returns `nil` for any other line.
  package init?(_ line: String, place: String) {
    guard line.hasPrefix("trial=") else { return nil }
    self.place = place
    fields = Dictionary(
      line.split(separator: "\t")
        .map { field in
          let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
          return (parts[0], parts.count > 1 ? parts[1] : "")
        },
      uniquingKeysWith: { $1 }
    )
  }

  private func text(_ name: String) -> String { fields[name] ?? "" }

  package var number: Int { Int(text("trial")) ?? 0 }
  /// The kind of work that took most of the stall.
  package var first: String { text("first") }
  package var isDivided: Bool { text("divided") == "1" }
  /// "named", "none", "other" or "unreported"; "void" if the stall was not as planned.
  package var verdict: String { text("verdict") }
  package var isVoid: Bool { verdict == "void" }
  /// Identifiers in the report that belong to work that never ran.
  package var invented: String { text("invented") }
  package var isLastStackRight: Bool { text("last") == "1" }
  /// The error of the reported share, in percentage points.
  package var error: Double? { isDivided ? nil : Double(text("error")) }
  /// Whether the reported state of the thread is right; `nil` if it was not compared.
  package var isStateRight: Bool? { isDivided || text("state_right").isEmpty ? nil : text("state_right") == "1" }
  /// Whether the culprit's name can come from source code.
  package var isNameRight: Bool { text("name_right") != "0" }
  /// Whether the report names the dependency's function that took the time; `nil` if there was none.
  package var isDependencyNamed: Bool? { text("dependency").isEmpty ? nil : text("dependency") == "1" }

  var samples: [(kind: String, all: Int, cut: Double)] {
    let recorded = text("samples").split(separator: ",")
      .map { part in
        let words = part.split(separator: ":")
        return (kind: String(words[0]), all: Int(words[1]) ?? 0, cut: Int(words[2]) ?? 0)
      }
    // Reports complete some of the incomplete stacks, and only count the others. Distributes this count in proportion.
    let cut = recorded.reduce(0) { $0 + $1.cut }
    let left = Double(text("ends")) ?? 0
    return recorded.map { ($0.kind, $0.all, cut > 0 ? Double($0.cut) * left / Double(cut) : 0) }
  }

  /// Descriptions of all faults of the report; empty if there is none.
  package var faults: [String] {
    if isVoid { return [] }
    var faults: [String] = []
    if verdict == "unreported" { return ["no report"] }
    if verdict != "named" { faults.append("says \"\(text("headline"))\"") }
    if !invented.isEmpty { faults.append("mentions \(invented), which never ran") }
    if let error, abs(error) > 6 { faults.append("the share is \(text("error")) points off") }
    if isStateRight == false { faults.append("says \"\(text("words"))\", but it \(text("state"))") }
    if !isNameRight { faults.append("has a strange name: \"\(text("headline"))\"") }
    if isDependencyNamed == false { faults.append("does not name the dependency's function") }
    let cut = samples.reduce(0) { $0 + $1.cut }
    if cut > 0 { faults.append("\(Int(cut.rounded())) cut stacks, beginning in \(text("roots"))") }
    if isLastStackRight { faults.append("the last stack is right") }
    return faults
  }

  package var isRight: Bool { faults.isEmpty }

  package var description: String {
    let all = samples.reduce(0) { $0 + $1.all }
    return "\(place), trial \(number), \(all) samples: \(first) \(text("truth")) %, then \(text("then"))"
      + (isDivided ? " (no part has half)" : "")
  }
}

/// Figures of all trials, by kind of work and in total.
package struct BlameSummary {
  private let verdicts: [BlameVerdict]
  private let missing: Int

  package init(_ verdicts: [BlameVerdict], missing: Int) {
    self.verdicts = verdicts
    self.missing = missing
  }

  private struct Kind {
    var trials = 0
    var named = 0
    var errors: [Double] = []
    var statesWrong = 0
    var invented = 0
    var samples = 0
    var cut = 0.0
    /// The builds in which the culprit was not named.
    var wrongIn: [String: Int] = [:]

    var meanError: Double { errors.isEmpty ? 0 : errors.reduce(0, +) / Double(errors.count) }
    var cutPercent: Double { samples == 0 ? 0 : cut / Double(samples) * 100 }
  }

  package func print(_ figures: Figures) {
    let counted = verdicts.filter { !$0.isVoid }
    let single = counted.filter { !$0.isDivided }
    var kinds: [String: Kind] = [:]
    for verdict in counted {
      for sample in verdict.samples {
        kinds[sample.kind, default: Kind()].samples += sample.all
        kinds[sample.kind, default: Kind()].cut += sample.cut
      }
      guard !verdict.isDivided else { continue }
      var kind = kinds[verdict.first] ?? Kind()
      kind.trials += 1
      if verdict.verdict == "named" { kind.named += 1 } else { kind.wrongIn[verdict.place, default: 0] += 1 }
      if let error = verdict.error { kind.errors.append(abs(error)) }
      if verdict.isStateRight == false { kind.statesWrong += 1 }
      if !verdict.invented.isEmpty { kind.invented += 1 }
      kinds[verdict.first] = kind
    }
    for verdict in counted where !verdict.isRight {
      figures.note("\(verdict.description): \(verdict.faults.joined(separator: "; "))")
    }
    figures.note(row("kind", "named", "error", "worst", "cut %", "samples", "words wrong", "invented", "not named in"))
    for (name, kind) in kinds.sorted(by: { $0.key < $1.key }) {
      figures.note(
        row(
          name,
          "\(kind.named)/\(kind.trials)",
          tenths(kind.meanError),
          tenths(kind.errors.max() ?? 0),
          tenths(kind.cutPercent),
          "\(kind.samples)",
          "\(kind.statesWrong)",
          "\(kind.invented)",
          kind.wrongIn.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: "; ")
        )
      )
    }
    let named = single.filter { $0.verdict == "named" }.count
    figures.print("blame.trials", Double(counted.count), "stalls")
    figures.print("blame.void", Double(verdicts.count - counted.count), "stalls")
    figures.print("blame.missing", Double(missing), "stalls", in: 0...0)
    figures.print("blame.kinds", Double(kinds.count), "kinds")
    figures.print("blame.culprit_named", percent(named, single.count), "percent", in: 99.5...100)
    figures.print("blame.invented", count { !$0.invented.isEmpty }, "reports", in: 0...0)
    figures.print("blame.no_verdict", Double(single.filter { $0.verdict == "none" }.count), "reports", in: 0...0)
    figures.print("blame.divided_unnamed", count { $0.isDivided && $0.verdict != "named" }, "reports", in: 0...0)
    figures.print("blame.dependency_unnamed", count { $0.isDependencyNamed == false }, "reports", in: 0...0)
    figures.print("blame.names_wrong", count { !$0.isNameRight }, "reports", in: 0...0)
    figures.print("blame.share_error", kinds.values.map(\.meanError).max() ?? 0, "points", in: 0...3)
    figures.print("blame.stacks_cut", kinds.values.map(\.cutPercent).max() ?? 0, "percent", in: 0...0.2)
    figures.print("blame.words_wrong", count { $0.isStateRight == false }, "reports", in: 0...0)
    figures.print("blame.last_stack_right", count { $0.isLastStackRight && !$0.isDivided }, "stalls", in: 0...0)
  }

  private func count(_ condition: (BlameVerdict) -> Bool) -> Double {
    Double(verdicts.filter { !$0.isVoid && condition($0) }.count)
  }

  private func percent(_ part: Int, _ whole: Int) -> Double { whole == 0 ? 0 : Double(part) / Double(whole) * 100 }

  /// Returns `value` with one decimal.
  private func tenths(_ value: Double) -> String {
    let tenths = Int((value * 10).rounded())
    return "\(tenths / 10).\(tenths % 10)"
  }

  private func row(_ name: String, _ values: String...) -> String {
    let widths = [7, 6, 6, 6, 8, 12, 9]
    var line = name + String(repeating: " ", count: max(1, 20 - name.count))
    for (value, width) in zip(values, widths) {
      line += String(repeating: " ", count: max(1, width - value.count)) + value
    }
    return values.count > widths.count && !values[widths.count].isEmpty ? line + "  " + values[widths.count] : line
  }
}

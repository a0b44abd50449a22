import Culprit

/// Judges reports about tasks.
package enum TaskJudgement {
  /// Returns whether `reports` has exactly one report, which blames `function`.
  package static func isNamed(_ function: String, in reports: [StallReport]) -> Bool {
    reports.count == 1 && reports[0].culprit?.function.name == function
  }

  /// The judgement of a section that suspends.
  package struct Section {
    /// Whether the report blames the right function.
    package var isNamed: Bool
    /// Whether the tree contains the caller, regardless of the task that did the work.
    package var hasCaller: Bool
    /// Indices of samples without the label. The last sample can lack the label, which is read after the stack was
    /// captured.
    package var unlabelled: [Int]
    /// Whether all samples that must have the label have it.
    package var isLabelled: Bool

    package var isRight: Bool { isNamed && hasCaller && isLabelled }

    package init(_ report: StallReport, function: String, caller: String, label: String) {
      isNamed = report.culprit?.function.name == function
      hasCaller = report.tree.flatMap(Self.names).contains(caller)
      unlabelled = report.samples.indices.filter { report.samples[$0].label != label }
      let last = report.samples.count - 1
      isLabelled = last > 0 && unlabelled.allSatisfy { $0 == last }
    }

    private static func names(_ node: StallReport.Node) -> [String] {
      [node.function.name] + node.children.flatMap(names)
    }
  }

  /// The judgement of a chain of async callers.
  package enum Chain: String {
    case whole
    /// The report has only innermost callers, or none, and states that callers are missing.
    case part
    case wrong

    /// - Parameters:
    ///   - found: The async callers in the report, innermost first.
    ///   - expected: The async callers of the chain, innermost first.
    ///   - isIncomplete: Whether the report states that callers are missing.
    package init(found: [String], expected: [String], isIncomplete: Bool) {
      if found == expected {
        self = .whole
      } else {
        self = isIncomplete && expected.starts(with: found) ? .part : .wrong
      }
    }
  }
}

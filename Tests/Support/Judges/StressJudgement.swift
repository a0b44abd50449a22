/// The judgement of a report from a service under stress.
package enum StressJudgement: String {
  /// The report names the culprit.
  case named
  /// The stall was under way when the watchdog was stopped.
  case void
  /// The report is about an earlier stall, or about work that the machine delayed.
  case excused
  /// The report names no function, or a caller of the culprit.
  case unnamed
  /// The report names an innocent function, or no stall was expected.
  case `false`

  /// An expected report.
  package struct Expected {
    /// The functions that the report may blame.
    package var functions: Set<String>
    /// Whether the stall need not be reported, because the watchdog was stopped during it.
    package var isVoid = false
    package var isReported = false

    package init(functions: Set<String>, isVoid: Bool = false, isReported: Bool = false) {
      (self.functions, self.isVoid, self.isReported) = (functions, isVoid, isReported)
    }
  }

  /// - Parameters:
  ///   - function: The blamed function.
  ///   - hasEnded: Whether the reported stall has ended.
  ///   - isInnocent: Whether the function cannot be a culprit at this time.
  ///   - expected: The stall of the source that is under way.
  ///   - earlier: Functions of recent stalls of the source whose reports can still arrive; `nil` if there is none.
  ///   - isSlow: Whether the machine delayed healthy work at that time.
  package init(
    blaming function: String?,
    hasEnded: Bool,
    isInnocent: Bool,
    expected: Expected?,
    earlier: Set<String>?,
    isSlow: Bool
  ) {
    let accepted = (expected?.functions ?? []).union(earlier ?? [])
    let isAccepted = function.map(accepted.contains) ?? false
    if let expected, !expected.isReported {
      if let function, expected.functions.contains(function) {
        self = .named
      } else if function == nil, !hasEnded || expected.isVoid {
        self = .void
      } else if isAccepted {
        self = .excused
      } else {
        self = isInnocent ? .false : .unnamed
      }
    } else {
      self = isSlow || earlier != nil && (isAccepted || function == nil) ? .excused : .false
    }
  }
}

import CulpritBlame
import CulpritStallRecord

extension Recording {
  /// The text reports of all stalls in this recording.
  ///
  /// - Parameters:
  ///   - width: The length of a line in characters.
  ///   - rules: What counts as the application's own code.
  ///   - resolve: Names a frame; the innermost function first where calls were inlined.
  /// - Returns: A report for each stall, in order.
  package func textReports(
    width: Int,
    rules: OwnershipRules = OwnershipRules(),
    resolve: (StackFrame) -> [ResolvedFrame]
  ) -> [String] {
    stalls.map { stall in
      let blame = Blame(stall: stall, stacks: stacks, rules: rules, resolve: resolve)
      let others = otherThreads(in: stall, rules: rules, resolve: resolve)
      return TextReport(process: process, stall: stall, blame: blame, others: others, modules: modules)
        .text(width: width)
    }
  }

  /// The other threads that were captured for `stall`, by what they were doing.
  ///
  /// - Parameters:
  ///   - stall: One of this recording's.
  ///   - rules: What counts as the application's own code.
  ///   - resolve: Names a frame; the innermost function first where calls were inlined.
  /// - Returns: The threads in groups, the largest first; none when they were not captured.
  package func otherThreads(
    in stall: Stall,
    rules: OwnershipRules = OwnershipRules(),
    resolve: (StackFrame) -> [ResolvedFrame]
  ) -> [ThreadGroup] {
    stall.others.map { ThreadGroup.groups(of: $0, stacks: stacks, rules: rules, resolve: resolve) } ?? []
  }

  /// The other threads of each stall with their whole stacks, as text.
  ///
  /// - Parameters:
  ///   - width: The length of a line in characters.
  ///   - rules: What counts as the application's own code.
  ///   - resolve: Names a frame; the innermost function first where calls were inlined.
  /// - Returns: A text for each stall that other threads were captured for, in order.
  package func textsOfOtherThreads(
    width: Int,
    rules: OwnershipRules = OwnershipRules(),
    resolve: (StackFrame) -> [ResolvedFrame]
  ) -> [String] {
    stalls.compactMap { stall in
      guard let others = stall.others, !others.threads.isEmpty else { return nil }
      let groups = otherThreads(in: stall, rules: rules, resolve: resolve)
      return ThreadsText(others, groups: groups, architecture: process?.architecture ?? "").text(width: width)
    }
  }
}

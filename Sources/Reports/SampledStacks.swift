import CulpritBlame
import CulpritStallRecord

/// The samples of a stall that found the same stack and the same state, as exports have them.
package struct SampledStack: Hashable, Sendable {
  /// The names of the functions, the innermost first; none where there is no stack.
  package var functions: [String]
  /// What the thread was doing.
  package var activity: StallReport.Activity
  /// The time that the samples stand for.
  package var time: Duration
  /// How many they are.
  package var count: Int
}

extension ReportBuilder {
  /// The sampled stacks of `stall`, those first that stand for most of its time.
  package func sampledStacks(of stall: Stall) -> [SampledStack] {
    let groups = SampleGroup.all(of: stall, stacks: recording.stacks, rules: rules, resolve: resolve)
    let maker = ReportMaker(rules: rules, architecture: architecture, names: FunctionNames([]))
    return groups.map { group in
      SampledStack(
        functions: group.frames.map { printable($0.displayName) },
        activity: maker.activity(group.activity),
        time: group.time,
        count: group.count
      )
    }
  }
}

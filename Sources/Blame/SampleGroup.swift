import CulpritStallRecord

/// The samples of a stall that found the same stack and the same state.
package struct SampleGroup: Hashable, Sendable {
  /// The functions, the innermost first; none where there is no stack.
  package var frames: [ResolvedFrame]
  /// What the thread was doing.
  package var activity: ThreadActivity
  /// The time that they stand for.
  package var time: Duration
  /// How many they are.
  package var count: Int

  private struct Key: Hashable {
    var functions: [FunctionIdentity]
    var activity: ThreadActivity
  }

  /// All samples of `stall`, with and without a stack.
  ///
  /// - Parameters:
  ///   - stall: The stall.
  ///   - stacks: The stacks that its samples refer to.
  ///   - rules: What counts as the application's own code.
  ///   - resolve: Names a frame; the innermost function first where calls were inlined.
  /// - Returns: The groups, those first that stand for most of the time. Together they stand for the stall, but for what was not
  ///   observed.
  package static func all(
    of stall: Stall,
    stacks: [Stack],
    rules: OwnershipRules = OwnershipRules(),
    resolve: (StackFrame) -> [ResolvedFrame]
  ) -> [SampleGroup] {
    let observed = PoolOccupants.observed(stall, stacks, resolve)
    let observations = Observations(stall: observed, stacks: stacks, rules: rules, resolve: resolve)
    var groups: [SampleGroup] = []
    var known: [Key: Int] = [:]
    for ((sample, time), place) in zip(observations.sampleTimes, observations.places) {
      let frames = place.map { observations.stacks[$0].stack.frames } ?? []
      let key = Key(functions: frames.map(\.identity), activity: sample.activity)
      if let group = known[key] {
        groups[group].time += time
        groups[group].count += 1
        continue
      }
      known[key] = groups.count
      groups.append(
        SampleGroup(frames: frames.reversed().map(\.resolved), activity: sample.activity, time: time, count: 1)
      )
    }
    // Of equal ones the first that was seen: results are to be repeatable.
    return groups.enumerated().sorted { ($1.element.time, $0.offset) < ($0.element.time, $1.offset) }.map(\.element)
  }
}

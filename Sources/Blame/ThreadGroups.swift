import CulpritStallRecord

/// Threads that were doing the same: their stacks go through the same functions.
package struct ThreadGroup: Hashable, Sendable {
  /// The threads.
  package var threads: [ObservedThread]
  /// What they were doing.
  package var activity: ThreadActivity
  /// How their capture went.
  package var outcome: CaptureOutcome
  /// The stack of the first of them, innermost first; empty when there is none.
  package var frames: [ResolvedFrame]
  /// Why there are no more frames.
  package var end: StackEnd

  /// Groups the threads of `all`, whose stacks are `stacks`.
  ///
  /// - Parameters:
  ///   - all: The threads.
  ///   - stacks: The stacks that they refer to.
  ///   - resolve: Names a frame; the innermost function first where calls were inlined.
  /// - Returns: The groups, the largest first, those of the same size in the order of their first threads.
  package static func groups(
    of all: AllThreads,
    stacks: [Stack],
    resolve: (StackFrame) -> [ResolvedFrame]
  ) -> [ThreadGroup] {
    struct Key: Hashable {
      var functions: [FunctionIdentity]
      var activity: ThreadActivity
      var outcome: CaptureOutcome
      var end: StackEnd
    }
    var resolved: [Int: [ResolvedFrame]] = [:]
    var order: [Key] = []
    var groups: [Key: ThreadGroup] = [:]
    for sample in all.threads {
      var frames: [ResolvedFrame] = []
      var end = StackEnd.notCaptured
      if let place = sample.stack, stacks.indices.contains(place) {
        let stack = TaskStack(stacks[place])
        end = stack.end
        frames = resolved[place] ?? stack.resolve(resolve)
        resolved[place] = frames
      }
      let key = Key(
        functions: frames.map(FunctionIdentity.init),
        activity: sample.activity,
        outcome: sample.outcome,
        end: end
      )
      if groups[key] == nil {
        order.append(key)
        groups[key] = ThreadGroup(
          threads: [],
          activity: sample.activity,
          outcome: sample.outcome,
          frames: frames,
          end: end
        )
      }
      groups[key]?.threads.append(sample.thread)
    }
    // Sorting is stable as far as equal sizes go: the place in `order` decides.
    return order.enumerated().compactMap { place, key in groups[key].map { (place, $0) } }
      .sorted { ($1.1.threads.count, $0.0) < ($0.1.threads.count, $1.0) }.map(\.1)
  }
}

import CulpritBlame
import CulpritStallRecord

/// The samples of a stall that found the same functions and the same state, as exports have them.
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
  /// The sampled stacks of `stall`, those first that stand for most of its time. Together they stand for the stall, to the nanosecond,
  /// but for what was not observed.
  ///
  /// - Parameters:
  ///   - stall: One of the recording's.
  ///   - log: Every sample of it, where it has not all of them.
  ///   - store: Where what is made of the samples goes when there is much of it.
  /// - Returns: The stacks.
  package func sampledStacks(
    of stall: Stall,
    log: SampleLog? = nil,
    store: (any OverflowStore)? = nil
  ) -> [SampledStack] {
    struct Key: Hashable {
      /// Which of the distinct lists of functions.
      var functions: Int
      var activity: ThreadActivity
    }
    struct Group {
      var stack: Int
      var activity: ThreadActivity
      var nanoseconds: UInt64 = 0
      var count = 0
    }
    let stacks = ProfileStacks(recording, rules: rules, resolve: resolve)
    let profile = StallProfile(stall, stacks, log: log, store: store)
    var groups: [Group] = []
    var known: [Key: Int] = [:]
    // Several stacks have the same functions, and very many samples the same stack.
    var lists: [[Int]: Int] = [:]
    var listOfStack: [Int: Int] = [:]
    func list(of stack: Int) -> Int {
      if let known = listOfStack[stack] { return known }
      let functions = stacks.stacks[stack].map { stacks.frames[$0].function }
      let number = lists[functions] ?? lists.count
      (lists[functions], listOfStack[stack]) = (number, number)
      return number
    }
    for track in profile.tracks {
      for segment in track.segments {
        guard let found = segment.sample else { continue }
        let key = Key(functions: list(of: segment.stack), activity: found.activity)
        let place = known[key] ?? groups.count
        if place == groups.count {
          known[key] = place
          groups.append(Group(stack: segment.stack, activity: found.activity))
        }
        groups[place].nanoseconds += segment.weight
        groups[place].count += 1
      }
    }
    let maker = ReportMaker(rules: rules, architecture: architecture, names: FunctionNames([]))
    // Of equal ones the first that was seen: results are to be repeatable.
    let order = groups.indices.sorted { (groups[$1].nanoseconds, $0) < (groups[$0].nanoseconds, $1) }
    return order.map { place in
      let group = groups[place]
      let frames = stacks.isCaptured(group.stack) ? stacks.stacks[group.stack].reversed() : []
      return SampledStack(
        functions: frames.map { printable(stacks.frames[$0].resolved.displayName) },
        activity: maker.activity(group.activity),
        time: .nanoseconds(Int64(clamping: group.nanoseconds)),
        count: group.count
      )
    }
  }
}

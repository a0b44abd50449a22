import CulpritBlame
import CulpritStallRecord

/// The samples of a stall with equal functions and states.
package struct SampledStack: Hashable, Sendable {
  package var functions: [String]
  package var activity: StallReport.Activity
  package var time: Duration
  package var count: Int
}

extension ReportBuilder {
  /// Returns the sampled stacks by descending time. They add up to the stall, except for unobserved time.
  package func sampledStacks(
    of stall: Stall,
    log: SampleLog? = nil,
    store: (any OverflowStore)? = nil
  ) -> [SampledStack] {
    struct Key: Hashable {
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
    let order = groups.indices.ordered { (groups[$1].nanoseconds, $0) < (groups[$0].nanoseconds, $1) }
    return order.map { place in
      let group = groups[place]
      let frames = stacks.isCaptured(group.stack) ? stacks.stacks[group.stack].reversed() : []
      return SampledStack(
        functions: frames.map { printable(stacks.frames[$0].resolved.displayName) },
        activity: activity(group.activity),
        time: .nanoseconds(Int64(clamping: group.nanoseconds)),
        count: group.count
      )
    }
  }
}

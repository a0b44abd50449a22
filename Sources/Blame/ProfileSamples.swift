import CulpritStallRecord

extension StallProfile {
  /// The samples of a stall, thread by thread, as stacks of a profile.
  ///
  /// They are gone through several times, which is less than to keep something of each.
  struct Samples {
    private let stacks: ProfileStacks
    private let threads: [SampleLog.Thread]
    /// How many have a stack.
    private var withStack = 0

    /// The samples of `threads`. Each stack has its place from here on.
    init(_ stacks: ProfileStacks, _ threads: [SampleLog.Thread]) {
      (self.stacks, self.threads) = (stacks, threads)
      var isAnyCut = false
      for thread in threads {
        for entry in thread.entries {
          guard let (_, isCut) = stacks.stack(recorded: entry.stack) else {
            _ = Self.stack(withoutFrames: entry, stacks)
            continue
          }
          withStack += 1
          isAnyCut = isAnyCut || isCut
        }
      }
      // So do those that are completed: what else stands for something comes behind them.
      guard isAnyCut else { return }
      var completed = inOrder()
      while completed.next() != nil {}
    }

    /// The stack of each sample, with the callers of those that are cut completed.
    func inOrder() -> Stacks { Stacks(stacks, threads, withStack: withStack) }

    private static func stack(withoutFrames entry: SampleLog.Entry, _ stacks: ProfileStacks) -> Int {
      let why = entry.outcome == .captured ? "it is lost" : entry.outcome.explanation
      return stacks.stack(saying: "(no stack: \(why))")
    }

    /// Goes through the stacks of samples. Only those that have one are neighbours of each other.
    struct Stacks: IteratorProtocol {
      private let stacks: ProfileStacks
      private var entries: Entries
      private let withStack: Int
      /// Those that have a stack, from the one with the number `first` on.
      private var ahead: Entries
      private var near: [(place: Int, isCut: Bool)] = []
      private var first = 0
      /// The number of the next one that has a stack, among these.
      private var number = 0

      fileprivate init(_ stacks: ProfileStacks, _ threads: [SampleLog.Thread], withStack: Int) {
        self.stacks = stacks
        entries = Entries(threads)
        ahead = entries
        self.withStack = withStack
      }

      mutating func next() -> Int? {
        guard let entry = entries.next() else { return nil }
        guard let (place, isCut) = stacks.stack(recorded: entry.stack) else {
          return Samples.stack(withoutFrames: entry, stacks)
        }
        defer { number += 1 }
        guard isCut else { return place }
        lookAround()
        let found = CutStacks.nearest(to: number, of: withStack, isWhole: { !near[$0 - first].isCut }) {
          stacks.match(place, in: near[$0 - first].place)
        }
        guard let found else { return stacks.stack(withoutCallers: place) }
        return stacks.stack(place, calledBy: found.callers, of: near[found.number - first].place)
      }

      /// Has in ``near`` what may be asked for.
      private mutating func lookAround() {
        while first + near.count <= number + CutStacks.reach, let entry = ahead.next() {
          guard let found = stacks.stack(recorded: entry.stack) else { continue }
          near.append(found)
          guard near.count >= 64 * CutStacks.reach else { continue }
          let passed = max(0, min(number - CutStacks.reach - first, near.count))
          near.removeFirst(passed)
          first += passed
        }
      }
    }

    /// Goes through the samples of one thread after the other.
    private struct Entries: IteratorProtocol {
      private let threads: [SampleLog.Thread]
      private var thread = 0
      private var entries: LongList<SampleLog.Entry>.Iterator?

      init(_ threads: [SampleLog.Thread]) { self.threads = threads }

      mutating func next() -> SampleLog.Entry? {
        while true {
          if let entry = entries?.next() { return entry }
          guard thread < threads.count else { return nil }
          entries = threads[thread].entries.makeIterator()
          thread += 1
        }
      }
    }
  }
}

import CulpritStallRecord

extension StallProfile {
  /// The samples of a stall, thread by thread, as stacks of a profile.
  struct Samples {
    private let stacks: ProfileStacks
    private let threads: [SampleLog.Thread]
    private var withStack = 0

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
      // Registers completed stacks first, so that placeholder stacks follow all others.
      guard isAnyCut else { return }
      var completed = inOrder()
      while completed.next() != nil {}
    }

    func inOrder() -> Stacks { Stacks(stacks, threads, withStack: withStack) }

    private static func stack(withoutFrames entry: SampleLog.Entry, _ stacks: ProfileStacks) -> Int {
      let why = entry.outcome == .captured ? "it is lost" : entry.outcome.explanation
      return stacks.stack(saying: "(no stack: \(why))")
    }

    /// Iterates over the stacks of samples. Samples without a stack do not count as neighbours.
    struct Stacks: IteratorProtocol {
      private let stacks: ProfileStacks
      private let entries: AnyIterator<SampleLog.Entry>
      private let withStack: Int
      private let ahead: AnyIterator<SampleLog.Entry>
      private var near: [(place: Int, isCut: Bool)] = []
      private var first = 0
      private var number = 0

      fileprivate init(_ stacks: ProfileStacks, _ threads: [SampleLog.Thread], withStack: Int) {
        self.stacks = stacks
        let all = threads.lazy.flatMap(\.entries)
        entries = AnyIterator(all.makeIterator())
        ahead = AnyIterator(all.makeIterator())
        self.withStack = withStack
      }

      mutating func next() -> Int? {
        guard let entry = entries.next() else { return nil }
        guard let (place, isCut) = stacks.stack(recorded: entry.stack) else {
          return Samples.stack(withoutFrames: entry, stacks)
        }
        defer { number += 1 }
        guard isCut else { return place }
        observeNeighbors()
        let found = CutStacks.nearest(to: number, of: withStack, isWhole: { !near[$0 - first].isCut }) {
          stacks.match(place, in: near[$0 - first].place)
        }
        guard let found else { return stacks.stack(withoutCallers: place) }
        return stacks.stack(place, calledBy: found.callers, of: near[found.number - first].place)
      }

      private mutating func observeNeighbors() {
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
  }
}

import CCulpritObserver
import Testing

@testable import Culprit

@Suite struct SampleQueueTests {
  private static let threshold: UInt64 = 1_000_000_000

  private func order(_ add: (inout SampleQueue) -> Void) -> (slots: [Int], protected: [Int], due: Int) {
    var queue = SampleQueue()
    queue.removeAll()
    add(&queue)
    return (
      (0..<queue.count).map { queue.index($0) }, (0..<queue.protectedCount).map { queue.protectedIndex($0) },
      queue.dueCount
    )
  }

  private func rank(_ worker: SampleQueue.Worker, _ age: Double) -> UInt64 {
    SampleQueue.rank(worker, age: UInt64(age * Double(Self.threshold)), threshold: Self.threshold)
  }

  @Test func ranksThreadsThenTasksThenSuspendedTasks() {
    #expect(rank(.thread, 100) < rank(.task, 1))
    #expect(rank(.task, 100) < rank(.suspended, 1))
  }

  @Test func ranksWorkNearThresholdFirst() {
    let ages = [1, 0.95, 1.1, 0.8, 1.4, 3, 9, 60]
    let ranks = ages.map { rank(.thread, $0) }
    #expect(ranks == ranks.sorted() && Set(ranks).count == ranks.count)
    #expect(ranks.allSatisfy { $0 < 64 })
  }

  @Test func ranksExtremeTimes() {
    for threshold in [0, 1, 63, UInt64.max] {
      for age in [0, 1, UInt64.max] {
        #expect(SampleQueue.rank(.suspended, age: age, threshold: threshold) < 256)
      }
    }
  }

  @Test func ranksLoopBeforeThousandsOfTasks() {
    let found = order { queue in
      for slot in 0..<4000 {
        let isLoop = slot == 3999
        queue.add(slot, rank: rank(isLoop ? .thread : .suspended, 1), lastSample: isLoop ? 5_000_000 : 0, isDue: true)
      }
    }
    #expect(found.slots.first == 3999 && found.due == 4000 && found.slots.count < 200)
    #expect(found.protected == [3999])
  }

  @Test func equalRanksTakeTurns() {
    let found = order { queue in
      for slot in 0..<4 {
        queue.add(slot, rank: 7, lastSample: [900, 300, 0, 600][slot] << 10, isDue: true)
      }
    }
    #expect(found.slots == [2, 1, 3, 0])
  }

  @Test func protectionIgnoresLastSample() {
    for lastSample in [UInt64(0), 1 << 40] {
      let found = order { queue in
        for slot in 0..<100 {
          queue.add(slot, rank: 7, lastSample: slot < 8 ? lastSample : 0, isDue: slot.isMultiple(of: 2))
        }
      }
      #expect(found.protected == Array(0..<8) && found.due == 50)
    }
  }
}

@Suite struct LastSampleTests {
  @Test func recognizesUnmovedTask() {
    let place = LastSample.place(3, stack: 5, observer_label())
    var last = LastSample()
    last.begin(5, 100)
    #expect(!last.isSuspended(5) && last.time(5) == 100 && last.time(6) == 0)
    last.sample(5, at: place)
    #expect(last.isSuspended(5, at: place) && !last.isSuspended(6, at: place))
    last.begin(5, 200)
    #expect(last.isSuspended(5, at: place) && last.time(5) == 200)
    last.sample(5)
    #expect(!last.isSuspended(5))
    last.sample(5, at: place)
    last.begin(6, 300)
    #expect(!last.isSuspended(6) && !last.isSuspended(5))
  }

  @Test func distinguishesPlaces() {
    let place = LastSample.place(3, stack: 5, observer_label())
    var label = observer_label()
    label.bytes = 1
    let others = [
      LastSample.place(4, stack: 5, observer_label()), LastSample.place(3, stack: 9, observer_label()),
      LastSample.place(3, stack: 5, label),
    ]
    #expect(!others.contains(place) && place == LastSample.place(3, stack: 5, observer_label()))
  }
}

@Suite struct CPUBudgetTests {
  private static let ms: UInt64 = 1_000_000

  @Test(arguments: [UInt32(1), 5, 50]) func staysWithinBudgetInEveryWindow(percent: UInt32) {
    var budget = CPUBudget()
    var (now, used) = (UInt64(1) << 50, UInt64(7) << 40)
    var uses: [UInt64] = []
    for step in 0..<3000 {
      now += 20 * Self.ms
      if step < 1000 || step > 1500 {
        budget.update(now: now, used: used, percent: percent)
        if !budget.isExhausted { used += 5 * Self.ms }
      }
      uses.append(used)
    }
    let most = (500..<3000).map { uses[$0] - uses[$0 - 500] }.max() ?? 0
    let allowed = 100 * Self.ms * UInt64(percent)
    #expect(most <= allowed + 5 * Self.ms)
    #expect(most >= min(allowed, 2500 * Self.ms) * 8 / 10)
  }

  @Test func waitsUntilBudgetRecovers() {
    var budget = CPUBudget()
    budget.update(now: 1 << 50, used: 0, percent: 5)
    budget.update(now: 1 << 50, used: 140 * Self.ms, percent: 5)
    #expect(budget.isExhausted)
    let wait = budget.wait(percent: 5)
    #expect(abs(Double(wait) - 2e9) < 1e7)
    budget.update(now: 1 << 50 + wait + Self.ms, used: 140 * Self.ms, percent: 5)
    #expect(!budget.isExhausted)
  }

  @Test func boundsDebt() {
    var budget = CPUBudget()
    budget.update(now: 1 << 50, used: 0, percent: 5)
    budget.update(now: 1 << 50, used: 1 << 50, percent: 5)
    budget.update(now: 1 << 50 + 12_000 * Self.ms, used: 1 << 50, percent: 5)
    #expect(!budget.isExhausted)
    budget.update(now: 5, used: 5, percent: 100)
    #expect(!budget.isExhausted)
  }
}

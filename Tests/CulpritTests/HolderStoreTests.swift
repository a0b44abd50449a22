import CulpritStallRecord
import Testing

@testable import Culprit

@Suite struct HolderStoreTests {
  private func holder(_ number: Int, thread: Int32) -> HolderSample {
    HolderSample(
      address: 1,
      thread: ObservedThread(id: thread, name: ""),
      isHeld: true,
      sample: Sample(age: .milliseconds(number), stack: nil, outcome: .captured, cpuTime: nil)
    )
  }

  private func stack(_ number: Int) -> Stack {
    Stack(frames: [.programCounter(RuntimeAddress(UInt64(number)))], end: .outermost)
  }

  @Test func coversWholeStallForEachThread() {
    var store = HolderStore()
    var kept = 0
    for number in 0..<10_000 {
      for thread in [Int32(7), 8] {
        kept += store.add(holder(number, thread: thread), stack: stack(number % 50)) ? 1 : 0
      }
    }
    #expect(store.samples.count <= HolderStore.limit && store.samples.count >= HolderStore.limit / 4 && kept < 20_000)
    for thread in [Int32(7), 8] {
      let ages = store.samples.filter { $0.thread.id == thread }.map(\.sample.age)
      #expect(ages == ages.sorted() && ages.first == .zero && ages.last.map { $0 > .milliseconds(9900) } == true)
      let gaps = zip(ages, ages.dropFirst()).map { $1 - $0 }
      #expect(gaps.max().map { $0 <= .milliseconds(64) } == true, "\(gaps)")
    }
    for holder in store.samples {
      let number = Int(holder.sample.age / .milliseconds(1))
      #expect(holder.sample.stack.map { store.table.stacks[$0] } == stack(number % 50))
    }
  }

  @Test(arguments: [1, 3]) func boundsMemory(samplesOfEach: Int) {
    var store = HolderStore()
    var kept = 0
    for number in 0..<20_000 {
      kept += store.add(holder(number, thread: Int32(1 + number / samplesOfEach)), stack: stack(number)) ? 1 : 0
      #expect(store.samples.count <= HolderStore.limit && store.table.stacks.count <= HolderStore.limit)
    }
    #expect(kept < 3 * HolderStore.limit + HolderStore.limit / 2, "\(kept)")
    let ages = store.samples.map(\.sample.age)
    #expect(ages == ages.sorted() && ages.count >= HolderStore.limit / 4)
  }
}

import Synchronization
import Testing

@testable import CulpritStallRecord

final class StoreInMemory: OverflowStore {
  private let pieces = Mutex<[[UInt8]]>([])
  private let piecesMax: Int

  init(piecesMax: Int = .max) { self.piecesMax = piecesMax }

  var count: Int { pieces.withLock { $0.count } }

  func append(_ bytes: UnsafeRawBufferPointer) -> Int? {
    let piece = Array(bytes)
    return pieces.withLock { pieces in
      guard pieces.count < piecesMax else { return nil }
      pieces.append(piece)
      return pieces.count - 1
    }
  }

  func read(_ place: Int, into bytes: UnsafeMutableRawBufferPointer) {
    bytes.copyBytes(from: pieces.withLock { $0[place] })
  }
}

@Suite struct LongListTests {
  /// A piece has 8192 values.
  @Test(arguments: [0, 1, 2, 8191, 8192, 8193, 16_384, 16_385, 40_000]) func preservesOrder(_ count: Int) {
    // No store, an unlimited store, and a store that is soon full.
    for store in [nil, StoreInMemory(), StoreInMemory(piecesMax: 1)] {
      var list = LongList<Int>(store: store)
      for number in 0..<count { list.append(number) }
      #expect(list.count == count)
      #expect(list.isEmpty == (count == 0))
      #expect(list.first == (count == 0 ? nil : 0))
      #expect(list.last == (count == 0 ? nil : count - 1))
      #expect(Array(list) == Array(0..<count))
      var pieces: [Int] = []
      list.forEachPiece { pieces += $0 }
      #expect(pieces == Array(0..<count))
      list.updateLast { $0 = -1 }
      #expect(Array(list) == (0..<count).map { $0 == count - 1 ? -1 : $0 })
      #expect(list.first == (count == 0 ? nil : count == 1 ? -1 : 0))
    }
  }

  @Test func keepsOnePieceInMemory() {
    let store = StoreInMemory()
    var list = LongList<Int>(store: store)
    list.append(contentsOf: 0..<100_000)
    #expect(store.count == 100_000 / 8192)
  }
}

@Suite struct SampleLogTests {
  private func sample(_ age: Int, thread: Int32?, label: String = "", stack: Int? = nil) -> Sample {
    Sample(.milliseconds(age), stack, .inSystemCall(202), label: label, threadID: thread)
  }

  @Test func groupsSamplesByThreadAndTime() {
    let log = SampleLog([
      sample(5, thread: 9, label: "b", stack: 3), sample(1, thread: 7), sample(4, thread: 9, label: "a"),
      sample(2, thread: 7, label: "b"), sample(4, thread: 9, stack: 1),
    ])
    #expect(log.count == 5)
    #expect(log.namesThreads)
    #expect(log.labels == ["", "b", "a"])
    let threads = log.threads()
    #expect(threads.map(\.id) == [7, 9])
    #expect(threads.map { $0.entries.map(\.age) } == [[1, 2], [4, 4, 5]].map { $0.map { .milliseconds($0) } })
    #expect(threads[1].entries.map(\.stack) == [nil, 1, 3])
    #expect(threads[1].entries.map(\.label) == [2, 0, 1])
    #expect(threads[1].entries.map(\.outcome) == [.noAnswer, .captured, .captured])
    #expect(threads[0].entries.allSatisfy { $0.activity == .inSystemCall(202) })
  }

  @Test func filtersSamples() {
    let log = SampleLog([sample(1, thread: nil, stack: 1), sample(2, thread: nil), sample(3, thread: 4)])
    let threads = log.threads { $0.stack != nil }
    #expect(threads.map(\.id) == [nil])
    #expect(threads.map { $0.entries.count } == [1])
    #expect(!SampleLog([sample(1, thread: nil)]).namesThreads)
    #expect(SampleLog([]).threads().isEmpty)
  }
}

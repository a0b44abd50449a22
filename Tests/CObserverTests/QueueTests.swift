import CCulpritObserver
import Testing

@Suite struct QueueTests {
  init() throws { try #require(canReadMemory) }

  /// Byte offsets of the queue's last item and of an item's successor.
  private static let layout = observer_queue_layout(last: -16, next: 8, uncounted: 0)

  /// Returns the count for a queue. `links` are the indices of the items' successors.
  private func count(_ links: [Int?], last: Int) -> UInt32 {
    // Three words for the queue, two for each item.
    let words = UnsafeMutablePointer<UInt64>.allocate(capacity: 3 + 2 * max(1, links.count))
    defer { words.deallocate() }
    words.initialize(repeating: 0, count: 3 + 2 * max(1, links.count))
    func address(_ place: Int) -> UInt64 { UInt64(UInt(bitPattern: words + 3 + 2 * place)) }
    if !links.isEmpty { (words[0], words[2]) = (address(last), address(0)) }
    for (place, next) in links.enumerated() { words[3 + 2 * place + 1] = next.map(address) ?? 0 }
    var layout = Self.layout
    return observer_queue_count(&layout, UInt64(UInt(bitPattern: words + 2)))
  }

  @Test func countsQueuedItems() {
    #expect(count([], last: 0) == 0)
    #expect(count([nil], last: 0) == 1)
    #expect(count([3, nil, 1, 2], last: 1) == 4)
    let many = Int(OBSERVER_WAITING_MAX)
    #expect(count((1..<many).map { $0 } + [nil], last: many - 1) == UInt32(many))
    #expect(count((1...many).map { $0 } + [nil], last: many) == UInt32(many))
  }

  @Test func rejectsInconsistentQueue() {
    #expect(count([1, nil, nil], last: 2) == 0)
    // A cycle counts up to the limit.
    #expect(count([1, 0, nil], last: 2) == UInt32(OBSERVER_WAITING_MAX))
    var layout = Self.layout
    #expect(observer_queue_count(&layout, 4096) == 0)
    #expect(observer_queue_waiting(0) == 0)
  }
}

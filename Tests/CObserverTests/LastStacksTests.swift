import CCulpritObserver
import Testing

@Suite(.serialized) struct LastStacksTests {
  private func add(_ addresses: [UInt64], slot: UInt32, item: UInt64) {
    var frames = addresses.map { unwind_frame(address: $0, kind: 1, offset: 0) }
    frames.withUnsafeMutableBufferPointer { frames in
      var stack = unwind_stack()
      stack.frames = frames.baseAddress
      stack.count = UInt32(frames.count)
      observer_last_stacks_add(slot, item, &stack)
    }
  }

  /// Returns the number of samples and the innermost address of each stack.
  private func read(slot: UInt32, item: UInt64) -> [[UInt64]]? {
    var found = observer_last_stacks()
    guard observer_last_stacks_read(slot, item, &found) else { return nil }
    return withUnsafeBytes(of: &found.stacks) { bytes in
      bytes.bindMemory(to: observer_last_stack.self).filter { $0.samples > 0 }.map {
        [UInt64($0.samples), $0.addresses.0]
      }
    }
  }

  @Test func keepsFrequentStacks() {
    observer_last_stacks_start()
    add([1, 9], slot: 5, item: 100)
    for address: UInt64 in [2, 2, 3, 4, 5, 6, 6, 2] { add([address, 9], slot: 5, item: 100) }
    #expect(read(slot: 5, item: 100).map { Set($0) } == [[1, 1], [3, 2], [2, 6], [1, 4]])
    #expect(read(slot: 5, item: 101) == nil && read(slot: 5 + UInt32(OBSERVER_LAST_STALLS), item: 100) == nil)
  }

  @Test func activeStallKeepsItsEntry() throws {
    observer_last_stacks_start()
    let table = try #require(observer_stall_table())
    let (slot, other) = (UInt32(6), UInt32(6 + OBSERVER_LAST_STALLS))
    defer { observer_stall_reset(table + Int(slot)) }
    observer_stall_set(table + Int(slot), 200, 1, 1, 0)
    add([1], slot: slot, item: 200)
    add([2], slot: other, item: 300)
    #expect(read(slot: slot, item: 200) == [[1, 1]] && read(slot: other, item: 300) == nil)
    observer_stall_reset(table + Int(slot))
    add([2], slot: other, item: 300)
    #expect(read(slot: slot, item: 200) == nil && read(slot: other, item: 300) == [[1, 2]])
  }

  @Test func truncatesLongStack() {
    observer_last_stacks_start()
    add(Array(1...UInt64(OBSERVER_LAST_FRAMES) + 5), slot: 7, item: 400)
    var found = observer_last_stacks()
    #expect(observer_last_stacks_read(7, 400, &found))
    #expect(found.stacks.0.count == UInt32(OBSERVER_LAST_FRAMES))
    #expect(UInt32(found.stacks.0.end) == UNWIND_END_FRAME_LIMIT.rawValue)
  }
}

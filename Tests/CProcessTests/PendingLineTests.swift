import CCulpritProcess
import Glibc
import Testing

@Suite(.serialized) struct PendingLineTests {
  init() { cprocess_pending_start { slot, item in slot == 3 && item == 7 ? 61_234_000_000 : 0 } }

  private func put(
    _ number: UInt64,
    isNew: Bool = true,
    item: UInt64 = 0,
    slot: UInt32 = 3,
    more: UInt32 = 0,
    isOfThread: Bool = false,
    tail: String = ""
  ) {
    let head = "stall \(number) "
    var stall = cprocess_pending_stall(
      item: item,
      age_ns: 412_000_000,
      slot: slot,
      more: more,
      is_of_thread: isOfThread
    )
    cprocess_pending_put(number, isNew, &stall, head, head.utf8.count, tail, tail.utf8.count)
  }

  /// Returns the printed lines.
  private func printed() throws -> [String] {
    var ends: [Int32] = [0, 0]
    try #require(pipe(&ends) == 0)
    let former = dup(STDERR_FILENO)
    dup2(ends[1], STDERR_FILENO)
    cprocess_pending_print(.max)
    dup2(former, STDERR_FILENO)
    for descriptor in [former, ends[1]] { close(descriptor) }
    defer { close(ends[0]) }
    var bytes = [UInt8](repeating: 0, count: 1 << 16)
    let count = read(ends[0], &bytes, bytes.count)
    let text = String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
    // Other tests might write to standard error meanwhile.
    return text.split(separator: "\n").map(String.init)
      .filter { $0.hasPrefix("stall ") || $0.hasPrefix("culprit: more ") }
  }

  @Test func printsCurrentAge() throws {
    put(1, item: 7, tail: ", limit 1 s")
    put(2, item: 7, slot: 4, tail: ", limit 1 s")
    put(3, more: 999, tail: "was stuck")
    #expect(
      try printed() == [
        "stall 1 61.23 s, limit 1 s", "stall 2 at least 412 ms, limit 1 s", "stall 3 was stuck; 999 more of this name",
      ]
    )
    #expect(!cprocess_pending_any())
  }

  @Test func printsThreadsFirst() throws {
    for number in 1...UInt64(CPROCESS_LINES_MAX) { put(number) }
    let thread = UInt64(CPROCESS_LINES_MAX) + 1
    put(thread, isOfThread: true)
    put(thread + 1)
    let lines = try printed()
    #expect(lines.first == "stall \(thread) " && lines.count == Int(CPROCESS_LINES_MAX) + 1, "\(lines)")
    #expect(lines.last == "culprit: more stalls than these have no report")
  }

  @Test func omitsReportBeingDelivered() throws {
    put(1, more: 1)
    put(2)
    cprocess_pending_deliver(1)
    #expect(try printed() == ["stall 1 ", "stall 2 "])
    put(1)
    put(2)
    cprocess_pending_deliver(2)
    #expect(try printed() == ["stall 1 "])
  }

  @Test func keepsLineUntilRemoved() {
    put(1)
    put(1, isNew: false)
    put(2)
    cprocess_pending_remove(1)
    #expect(cprocess_pending_any())
    cprocess_pending_remove(2)
    #expect(!cprocess_pending_any())
  }

  /// A stall without an entry stays pending until its removal.
  @Test func countsStallsBeyondCapacity() {
    let numbers = 1...UInt64(CPROCESS_LINES_MAX) + 3
    for number in numbers { put(number) }
    for number in numbers.dropLast() { cprocess_pending_remove(number) }
    #expect(cprocess_pending_any())
    cprocess_pending_remove(numbers.upperBound)
    #expect(!cprocess_pending_any())
  }

  /// A later line of a stall without an entry takes a freed entry.
  @Test func stallGetsFreedEntry() {
    let last = UInt64(CPROCESS_LINES_MAX) + 1
    for number in 1...last { put(number) }
    cprocess_pending_remove(1)
    put(last, isNew: false)
    for number in 2...last { cprocess_pending_remove(number) }
    #expect(!cprocess_pending_any())
  }
}

import CCulpritProcess
import Testing

@Suite(.serialized) struct PendingLineTests {
  init() { cprocess_pending_start() }

  private func put(_ number: UInt64, isNew: Bool = true) {
    let line = "stall \(number)\n"
    cprocess_pending_put(number, isNew, line, line.utf8.count)
  }

  @Test func keepsALineUntilItIsRemoved() {
    put(1)
    put(1, isNew: false)
    put(2)
    cprocess_pending_remove(1)
    #expect(cprocess_pending_any())
    cprocess_pending_remove(2)
    #expect(!cprocess_pending_any())
  }

  /// Neither forgets a stall without a place nor keeps it for ever.
  @Test func countsStallsWithoutAPlace() {
    let numbers = 1...UInt64(CPROCESS_LINES_MAX) + 3
    for number in numbers { put(number) }
    for number in numbers.dropLast() { cprocess_pending_remove(number) }
    #expect(cprocess_pending_any())
    cprocess_pending_remove(numbers.upperBound)
    #expect(!cprocess_pending_any())
  }

  /// A stall gets the place of another one, by a later line.
  @Test func findsAPlaceLater() {
    let last = UInt64(CPROCESS_LINES_MAX) + 1
    for number in 1...last { put(number) }
    cprocess_pending_remove(1)
    put(last, isNew: false)
    for number in 2...last { cprocess_pending_remove(number) }
    #expect(!cprocess_pending_any())
  }
}

import CCulpritProcess
import CulpritReports
import CulpritStallRecord
import Synchronization

/// Lines about stalls without a delivered report, printed by an exit handler (`cprocess_pending.h`).
///
/// All sections of one name share a line, because thousands of requests can be late at once.
final class PendingReports: Sendable {
  private static let reporters = Atomic<UInt64>(0)

  struct Place {
    var slot: Int
    var item: UInt64
  }

  /// The present age of the stall in `place` is printed between `head` and `tail`.
  private struct Line {
    var head: String
    var tail = ""
    /// The source of `head` and `tail` until they are formatted. Thousands of counted stalls are formatted only when
    /// needed.
    var text: EventText?
    var place: Place?
    var age = Duration.zero
    var isOfThread = true
    /// Whether a handler is being called with the report.
    var isDelivered = false

    mutating func format() {
      guard let parts = text?.summaryParts else { return }
      (head, tail, text) = (PendingReports.introduction + parts.head, parts.tail, nil)
    }
  }

  private struct Sections {
    var number: UInt64
    var lines: [UInt64: Line] = [:]
    /// Ongoing stalls without a record. Reports of recorded stalls include them.
    var counted = 0
    var dropped = 0
    /// The latest stall that was counted or dropped.
    var latest: Line?

    var count: Int { lines.count + counted + dropped }

    /// The oldest stall. Stalls of threads precede those of suspended tasks.
    var first: Line? {
      func first(isDelivered: Bool) -> Line? {
        lines.lazy.filter { $0.value.isDelivered == isDelivered }
          .min { ($0.value.isOfThread ? 0 : 1, $0.key) < ($1.value.isOfThread ? 0 : 1, $1.key) }?.value
      }
      return first(isDelivered: false) ?? (counted + dropped > 0 ? latest : first(isDelivered: true))
    }
  }

  private struct State {
    var sections: [WatchedSource: Sections] = [:]
    var sources: [UInt64: WatchedSource] = [:]
    /// Whether the recorder has ended. The reports of recorded stalls then include all counted ones.
    var isOver = false
  }

  /// The high bits of this reporter's numbers, unique in the process.
  private let base = reporters.add(1, ordering: .relaxed).newValue << 40
  private let state = Mutex(State())

  /// If `isCounted`, reports of other stalls include the stall.
  func begin(_ stall: Stall, _ text: EventText, in place: Place, isCounted: Bool) {
    var line = Line(
      head: "",
      text: text,
      place: place,
      age: stall.duration,
      isOfThread: stall.thread.id != 0
    )
    guard stall.source.kind == .section else { return put(line, base | stall.id, isNew: true) }
    state.withLock { state in
      if !isCounted { state.sources[stall.id] = stall.source }
      var sections = state.sections[stall.source] ?? Sections(number: base | stall.id)
      if isCounted {
        sections.counted += 1
        sections.latest = line
      } else {
        line.format()
        sections.lines[stall.id] = line
      }
      put(sections, isNew: sections.count == 1)
      state.sections[stall.source] = sections
    }
  }

  func put(_ stall: Stall, of process: ObservedProcess?) {
    put(EventText(stall, of: process, isHang: false).endSummary, stall.id)
  }

  func put(_ report: StallReport, number: UInt64) { put(report.summary, number) }

  private func put(_ summary: String, _ number: UInt64) {
    let head = Self.introduction + summary
    let isSection = state.withLock { state in
      change(&state, number) { sections in
        sections.lines[number]?.head = head
        sections.lines[number]?.tail = ""
        sections.lines[number]?.place = nil
      }
    }
    if !isSection { put(Line(head: head), base | number, isNew: false) }
  }

  /// Records that the calling thread delivers the report of stall `number` to a handler.
  func deliver(_ number: UInt64) {
    let line = state.withLock { state -> UInt64 in
      change(&state, number) { $0.lines[number]?.isDelivered = true }
      return state.sources[number].flatMap { state.sections[$0]?.number } ?? (base | number)
    }
    cprocess_pending_deliver(line)
  }

  /// Removes the report of stall `number`, which has been delivered or only counted.
  func remove(_ number: UInt64) {
    let isSection = state.withLock { state in
      defer { state.sources[number] = nil }
      return change(&state, number) { $0.lines[number] = nil }
    }
    if !isSection { cprocess_pending_remove(base | number) }
  }

  /// Counts stall `number` in the line of its section, because its report was dropped.
  func drop(_ number: UInt64) {
    state.withLock { state in
      change(&state, number) { sections in
        guard let line = sections.lines.removeValue(forKey: number) else { return }
        sections.latest = line
        sections.dropped += 1
      }
      state.sources[number] = nil
    }
  }

  /// Removes a counted stall of `source` that is over or is now recorded.
  func uncount(_ source: WatchedSource) {
    state.withLock { state in change(&state, source) { $0.counted = max(0, $0.counted - 1) } }
  }

  /// Records that no further stall begins. Counted stalls then end with the last recorded stall of their name.
  func finish() {
    state.withLock { state in
      state.isOver = true
      for source in Array(state.sections.keys) { change(&state, source) { _ in } }
    }
  }

  /// Changes the line of stall `number`. Returns whether the stall is a section's.
  @discardableResult
  private func change(_ state: inout State, _ number: UInt64, _ body: (inout Sections) -> Void) -> Bool {
    guard let source = state.sources[number] else { return false }
    change(&state, source, body)
    return true
  }

  private func change(_ state: inout State, _ source: WatchedSource, _ body: (inout Sections) -> Void) {
    guard var sections = state.sections.removeValue(forKey: source) else { return }
    body(&sections)
    if state.isOver, sections.lines.isEmpty { sections.counted = 0 }
    guard sections.count > 0 else { return cprocess_pending_remove(sections.number) }
    put(sections, isNew: false)
    state.sections[source] = sections
  }

  private func put(_ sections: Sections, isNew: Bool) {
    guard let line = sections.first else { return }
    put(line, sections.number, isNew: isNew, more: sections.count - 1)
  }

  private func put(_ line: Line, _ number: UInt64, isNew: Bool, more: Int = 0) {
    var line = line
    line.format()
    var stall = cprocess_pending_stall(
      item: line.place?.item ?? 0,
      age_ns: line.age.wholeNanoseconds,
      slot: UInt32(truncatingIfNeeded: line.place?.slot ?? 0),
      more: UInt32(clamping: more),
      is_of_thread: line.isOfThread
    )
    cprocess_pending_put(number, isNew, &stall, line.head, line.head.utf8.count, line.tail, line.tail.utf8.count)
  }

  private static let introduction = "culprit: no time for a full report: "
}

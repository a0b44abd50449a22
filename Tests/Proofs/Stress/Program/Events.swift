import Culprit
import CulpritBlame
import CulpritSymbols
import Glibc
import Judges
import StressHarm
import Synchronization

/// What the service tells whoever looks after it: a line each, the first word says what.
enum Event: String {
  case stall, named, unnamed, void, excused, later, `false`, error, acts, done
}

/// Writes a line to standard output, whole.
func tell(_ event: Event, _ text: String = "") {
  let line = "\(event.rawValue) \(text.replacing("\n", with: " | "))\n"
  let bytes = Array(line.utf8.prefix(4000)) + (line.utf8.count > 4000 ? [10] : [])
  while write(STDOUT_FILENO, bytes, bytes.count) < 0 && errno == EINTR {}
}

/// What is expected of each source, and what was reported.
final class Ledger: Sendable {
  private struct State {
    var expected: [String: StressJudgement.Expected] = [:]
    /// Stalls that need not be reported, and may be later: until when.
    var void: [(source: String, functions: Set<String>, until: UInt64)] = []
    /// Times in which healthy work took too long: whoever reports that is right.
    var slow: [ClosedRange<UInt64>] = []
  }

  private let state = Mutex(State())

  /// A stall of `source` begins, which `culprit` is to blame for.
  func begins(_ source: String, _ culprit: Culprit) {
    state.withLock { $0.expected[source] = StressJudgement.Expected(functions: culprit.functions) }
    tell(.stall, "\(source) \(culprit)")
  }

  /// The stall of `source` need not be reported.
  func void(_ source: String) { state.withLock { $0.expected[source]?.isVoid = true } }

  /// Every stall that is under way need not be reported.
  func voidAll() {
    state.withLock { state in for source in state.expected.keys { state.expected[source]?.isVoid = true } }
  }

  /// The stall of `source` is over: waits for its report.
  func ended(_ source: String, _ culprit: Culprit) {
    let end = stress_now_ns() + 30_000_000_000
    while stress_now_ns() < end {
      if let found = state.withLock({ $0.expected[source] }), found.isReported || found.isVoid { break }
      usleep(2000)
    }
    let found = state.withLock { state in
      let found = state.expected.removeValue(forKey: source)
      if let found, found.isVoid {
        state.void.append((source, found.functions, stress_now_ns() + 60_000_000_000))
        if state.void.count > 32 { state.void.removeFirst() }
      }
      return found
    }
    guard let found, !found.isReported else { return }
    tell(found.isVoid ? .void : .unnamed, "\(source) \(culprit): no report")
  }

  /// Healthy work was held up from `begin` to `end`, by whatever else the machine does.
  func wasSlow(from begin: UInt64, to end: UInt64) {
    state.withLock { state in
      // The same wait may be noted as it goes on.
      if state.slow.last?.lowerBound == begin { state.slow.removeLast() }
      state.slow.append(begin...max(begin, end))
      if state.slow.count > 64 { state.slow.removeFirst() }
    }
  }

  /// When the process last had no descriptors or no memory to spare: names are read from files.
  private let lastLimited = Atomic<UInt64>(0)

  /// That it has none until ``hasPlenty()``.
  func isShort() { lastLimited.store(.max, ordering: .releasing) }

  func hasPlenty() { lastLimited.store(stress_now_ns(), ordering: .releasing) }

  /// The function that `report` blames. One that was made while files could not be read is made again from its record, as
  /// somebody would who reads it later.
  private func function(_ report: StallReport, _ functions: Set<String>) -> String? {
    let first = report.culprit?.function.name
    if let first, functions.contains(first) { return first }
    while lastLimited.load(ordering: .acquiring) == .max { usleep(1000) }
    let last = lastLimited.load(ordering: .acquiring)
    guard last > 0, stress_now_ns() &- last < 20_000_000_000 else { return first }
    let symbolizer = Symbolizer(modules: report.raw.recording.modules)
    let blame = Blame(stall: report.raw.stall, stacks: report.raw.recording.stacks, resolve: symbolizer.resolve)
    guard let second = blame.culprit?.frame.function, functions.contains(second) else { return first }
    tell(.later, "\(report.source.name): \(second)")
    return second
  }

  /// Judges a report.
  func add(_ report: StallReport) {
    let source = report.source.name
    // With some time for the making of the report.
    let since = stress_now_ns() &- UInt64((report.duration + report.raw.stall.gap + .seconds(10)) / .nanoseconds(1))
    let (expected, isSlow, void) = state.withLock { state in
      let expected = state.expected[source]
      if expected != nil { state.expected[source]?.isReported = true }
      let void = state.void.filter { $0.source == source && $0.until > stress_now_ns() }
      return (expected, state.slow.contains { $0.upperBound >= since }, void)
    }
    let earlier = void.isEmpty ? nil : void.reduce(into: Set<String>()) { $0.formUnion($1.functions) }
    let function = function(report, (expected?.functions ?? []).union(earlier ?? []))
    let judged = StressJudgement(
      blaming: function,
      hasEnded: report.hasEnded,
      isInnocent: function.map(Culprit.isInnocent) ?? false,
      expected: expected,
      earlier: earlier,
      isSlow: isSlow
    )
    switch judged {
    case .named: tell(.named, source)
    case .void: tell(.void, "\(source): under way when the watchdog was stopped")
    case .excused:
      // A late report of an earlier stall: the report of this one is still to come.
      if let expected, !expected.isReported { state.withLock { $0.expected[source]?.isReported = false } }
      tell(.excused, "\(source): a report of slow work, or of a stall in which the watchdog was stopped")
    case .unnamed: tell(.unnamed, "\(source): not \(expected?.functions ?? []): \(report)")
    case .false: tell(.false, "\(source): not \(expected?.functions ?? []): \(report)")
    }
  }
}

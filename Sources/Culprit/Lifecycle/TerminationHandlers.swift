import CCulpritProcess
import CulpritStallRecord

typealias TerminationHandler = @Sendable (Watchdog.TerminationRequest) -> Watchdog.TerminationRequest.Decision

/// Calls one termination handler. Each handler has its own thread, so a blocked worker or handler delays no other.
final class TerminationHandlerThread: Sendable {
  private let escalation: EscalationBlock
  private let lastReport: LastReport
  private let mask = HandlerMask()
  private let membership: Mutex<Membership>
  private let thread = OnDemandThread()

  private struct Membership {
    /// The last answered question; at first, the last question before the handler was added.
    var last: UInt32
    /// The question at the time of removal, 0 for none; `nil` while the handler is installed.
    var asked: UInt32?
  }

  /// The handler is called with the calling thread's signal mask.
  init(
    _ escalation: EscalationBlock,
    _ lastReport: LastReport,
    _ handler: @escaping TerminationHandler
  ) throws(WatchdogError) {
    self.escalation = escalation
    self.lastReport = lastReport
    membership = Mutex(Membership(last: cprocess_escalation_add_handler(escalation.pointer)))
    do throws(WatchdogError) {
      try thread.start(name: "culprit-veto", stack: .application) { [self] in run(handler) }
    } catch {
      remove()
      // No thread will answer a question asked since the handler was added.
      if let number = nextQuestion().number { cprocess_escalation_answer(escalation.pointer, number, false) }
      throw error
    }
  }

  func remove() {
    membership.withLock { membership in
      guard membership.asked == nil else { return }
      membership.asked = cprocess_escalation_remove_handler(escalation.pointer)
    }
  }

  /// Waits until `deadline`. Returns whether the handler has returned.
  func join(until deadline: UInt64) -> Bool { thread.join(until: deadline) }

  /// Returns the question to answer, `nil` for none, and whether it is the last. An answer to another question would
  /// count as another handler's.
  private func nextQuestion() -> (number: UInt32?, isLast: Bool) {
    membership.withLock { membership in
      let number = membership.asked ?? cprocess_escalation_question(escalation.pointer)
      defer { membership.last = number }
      return (number == 0 || number == membership.last ? nil : number, membership.asked != nil)
    }
  }

  private func run(_ handler: TerminationHandler) {
    while true {
      let seen = cprocess_escalation_question_word(escalation.pointer)
      if cprocess_escalation_stopping(escalation.pointer) { return }
      let (number, isLast) = nextQuestion()
      if let number {
        if !isLast, let request = request(number) {
          // The answer is stored inside `mask.run`, whose end might wait for a fork.
          mask.run { cprocess_escalation_answer(escalation.pointer, number, handler(request) == .veto) }
        } else {
          cprocess_escalation_answer(escalation.pointer, number, false)
        }
      }
      if isLast { return }
      if number == nil { allowingFork { cprocess_escalation_wait_for_question(escalation.pointer, seen) } }
    }
  }

  /// Returns `nil` if the question is over.
  private func request(_ number: UInt32) -> Watchdog.TerminationRequest? {
    var ending = cprocess_termination_request()
    var isOpen = false
    let reason = String(unsafeUninitializedCapacity: Int(CPROCESS_REASON_BYTES)) { bytes in
      isOpen = cprocess_escalation_read_termination(escalation.pointer, number, &ending, bytes.baseAddress)
      return isOpen ? Int(ending.reason_bytes) : 0
    }
    guard isOpen, let source = SlotRegistry.shared.source(Int(ending.slot)) else { return nil }
    return Watchdog.TerminationRequest(
      boxed: lastReport.get(slot: ending.slot, item: ending.item),
      source: StallReport.Source(source),
      threadID: ending.tid,
      threshold: Duration(wholeNanoseconds: ending.limit_ns),
      elapsed: Duration(wholeNanoseconds: ending.age_ns),
      cpuTime: Watchdog.CPUTime(ending),
      description: reason
    )
  }
}

final class LastReport: Sendable {
  private struct Found {
    var slot: UInt32
    var item: UInt64
    var report: Boxed<StallReport>
  }

  private let found = Mutex<Found?>(nil)

  func set(_ report: StallReport, slot: UInt32, item: UInt64) {
    found.withLock { $0 = Found(slot: slot, item: item, report: Boxed(report)) }
  }

  func get(slot: UInt32, item: UInt64) -> Boxed<StallReport>? {
    found.withLock { found in
      guard let found, found.slot == slot, found.item == item else { return nil }
      return found.report
    }
  }
}

import CCulpritLinux
import CCulpritProcess
import CulpritStallRecord
import Synchronization

typealias TerminationHandler = @Sendable (Watchdog.TerminationRequest) -> Watchdog.TerminationRequest.Decision

/// The thread that asks one of the application's handlers before the process is ended.
///
/// Every handler has one of its own, which is there from the start and waits for nothing but the question: it is asked
/// whatever holds up the blocking worker, other handlers, or this one's thread of an earlier time.
final class TerminationHandlerThread: Sendable {
  private let escalation: EscalationBlock
  private let lastReport: LastReport
  private let mask = HandlerMask()
  private let membership: Mutex<Membership>
  private let thread = Mutex<PosixThread?>(nil)

  /// Which questions count the handler.
  private struct Membership {
    /// The last question that it has nothing to do with any more, or never had.
    var last: UInt32
    /// What was being asked when it was removed, 0 for nothing; `nil` while it is there.
    var asked: UInt32?
  }

  /// Asks `handler`, which was installed by the calling thread.
  ///
  /// - Throws: ``PosixThreadError`` when the thread cannot be started.
  init(
    _ escalation: EscalationBlock,
    _ lastReport: LastReport,
    _ handler: @escaping TerminationHandler
  ) throws(PosixThreadError) {
    self.escalation = escalation
    self.lastReport = lastReport
    membership = Mutex(Membership(last: cprocess_escalation_add_handler(escalation.pointer)))
    do throws(PosixThreadError) {
      let thread = try PosixThread(name: "culprit-veto") { [self] in run(handler) }
      self.thread.withLock { $0 = thread }
    } catch {
      remove()
      // Nobody else answers what was asked meanwhile.
      if let number = nextQuestion().number { cprocess_escalation_answer(escalation.pointer, number, false) }
      throw error
    }
  }

  /// Asks no more.
  func remove() {
    membership.withLock { membership in
      guard membership.asked == nil else { return }
      membership.asked = cprocess_escalation_remove_handler(escalation.pointer)
    }
  }

  /// Waits until the handler has returned, until `deadline` at most, on the observer's clock. Returns whether it has.
  func join(until deadline: UInt64) -> Bool { thread.withLock { $0 }?.join(until: deadline) ?? true }

  /// What is to be answered, `nil` for nothing; and whether there will be no more of it. An answer to what does not count the
  /// handler would take the place of another one's.
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
        // Who has been removed is not called any more.
        if !isLast, let request = request(number) {
          // Answered before the thread works again, for which it may wait for a process that forks.
          mask.run { cprocess_escalation_answer(escalation.pointer, number, handler(request) == .veto) }
        } else {
          cprocess_escalation_answer(escalation.pointer, number, false)
        }
      }
      if isLast { return }
      if number == nil { resting { cprocess_escalation_wait_for_question(escalation.pointer, seen) } }
    }
  }

  /// What the handler is asked; `nil` when that is over already.
  private func request(_ number: UInt32) -> Watchdog.TerminationRequest? {
    var ending = cprocess_termination_request()
    guard cprocess_escalation_read_termination(escalation.pointer, number, &ending),
      let source = SlotRegistry.shared.source(Int(ending.slot))
    else { return nil }
    let reason = withUnsafeBytes(of: ending.reason) { String(decoding: $0.prefix(Int(ending.bytes)), as: UTF8.self) }
    return Watchdog.TerminationRequest(
      source: StallReport.Source(source),
      threadID: ending.tid,
      threshold: Duration(wholeNanoseconds: ending.limit_ns),
      elapsed: Duration(wholeNanoseconds: ending.age_ns),
      processorTime: Watchdog.ProcessorTime(ending),
      report: lastReport.get(slot: ending.slot, item: ending.item),
      description: reason
    )
  }
}

/// The report of the stall that is to end the process, as soon as there is one.
final class LastReport: Sendable {
  private struct Found {
    var slot: UInt32
    var item: UInt64
    var report: StallReport
  }

  private let found = Mutex<Found?>(nil)

  func set(_ report: StallReport, slot: UInt32, item: UInt64) {
    found.withLock { $0 = Found(slot: slot, item: item, report: report) }
  }

  /// That of the work item in a slot.
  func get(slot: UInt32, item: UInt64) -> StallReport? {
    found.withLock { found in
      guard let found, found.slot == slot, found.item == item else { return nil }
      return found.report
    }
  }
}

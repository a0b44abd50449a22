/// What it cost to observe something: the service's threads in handlers, and the watchdog's own thread.
package struct ObservationCost: Hashable, Sendable {
  /// Stacks that were read from outside, which their threads cannot notice.
  package var fromOutside = 0
  /// Stacks that a signal handler copied.
  package var bySignal = 0
  /// Looks that gave no stack: threads that did not answer, above all.
  package var withoutStack = 0
  /// The longest time that a thread spent in the handler once.
  package var longestHandlerTime = Duration.zero
  /// The time that threads spent in the handler in all.
  package var handlerTime = Duration.zero
  /// The time that unwinding took, on the watchdog's thread.
  package var unwindTime = Duration.zero

  /// No cost.
  package init() {}

  /// Adds what the look at a thread cost that `sample` came of.
  package mutating func add(_ sample: Sample) {
    add(outcome: sample.outcome, handlerTime: sample.handlerTime, unwindTime: sample.unwindTime)
  }

  /// Adds what one look at a thread cost.
  ///
  /// - Parameters:
  ///   - outcome: How it went.
  ///   - handlerTime: The time that the thread spent in the handler; zero when it was read from outside.
  ///   - unwindTime: The time that unwinding took.
  package mutating func add(outcome: CaptureOutcome, handlerTime: Duration, unwindTime: Duration) {
    if outcome != .captured {
      withoutStack += 1
    } else if handlerTime > .zero {
      bySignal += 1
    } else {
      fromOutside += 1
    }
    longestHandlerTime = max(longestHandlerTime, handlerTime)
    self.handlerTime += handlerTime
    self.unwindTime += unwindTime
  }
}

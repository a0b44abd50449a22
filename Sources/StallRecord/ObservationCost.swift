/// The cost of an observation: time of the service's threads in signal handlers, and time of the watchdog's thread.
package struct ObservationCost: Hashable, Sendable {
  /// The number of stacks read from outside, unnoticed by their threads.
  package var fromOutside = 0
  /// The number of stacks copied by a signal handler.
  package var bySignal = 0
  /// The number of attempts without a stack, mostly because threads did not answer.
  package var withoutStack = 0
  /// The longest single time of a thread in the signal handler.
  package var longestHandlerTime = Duration.zero
  /// The total time of threads in the signal handler.
  package var handlerTime = Duration.zero
  /// The time for unwinding, on the watchdog's thread.
  package var unwindTime = Duration.zero

  /// Creates a cost of zero.
  package init() {}

  /// Adds the cost of `sample`.
  package mutating func add(_ sample: Sample) {
    add(outcome: sample.outcome, handlerTime: sample.handlerTime, unwindTime: sample.unwindTime)
  }

  /// Adds the cost of one attempt to capture a stack.
  ///
  /// - Parameters:
  ///   - outcome: The result of the capture.
  ///   - handlerTime: The time that the thread spent in the signal handler; zero if it was read from outside.
  ///   - unwindTime: The time for unwinding.
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

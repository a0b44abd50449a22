package struct ObservationCost: Hashable, Sendable {
  package var fromOutside = 0
  package var bySignal = 0
  /// The number of attempts without a stack. Mostly, threads did not answer.
  package var withoutStack = 0
  package var longestHandlerTime = Duration.zero
  package var handlerTime = Duration.zero
  package var unwindTime = Duration.zero

  package init() {}

  package mutating func add(_ sample: Sample) {
    add(outcome: sample.outcome, handlerTime: sample.handlerTime, unwindTime: sample.unwindTime)
  }

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

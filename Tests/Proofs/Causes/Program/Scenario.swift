import Culprit
import Judges

/// A stall with a known cause, and the code that produces it.
struct Scenario: Sendable {
  typealias Cause = StallReport.Cause.Kind

  var truth: CauseTruth
  /// The interval of samples.
  var interval: Duration
  var play: @Sendable (Stage) throws -> Void

  var name: String { truth.name }

  /// `play` watches and stalls. `also` has further causes that the report can name. Computing scenarios are load-sensitive
  /// by default.
  init(
    _ name: String,
    _ cause: Cause,
    also: [Cause] = [],
    _ culprit: String?,
    holder: String? = nil,
    contender: String? = nil,
    texts: [String] = [],
    isLoadSensitive: Bool = false,
    interval: Duration = .milliseconds(50),
    play: @escaping @Sendable (Stage) throws -> Void
  ) {
    let isComputing = cause != .noCPU && ([cause] + also).contains { $0 == .computing || $0 == .deallocation }
    truth = CauseTruth(
      name: name,
      cause: cause,
      culprit: culprit,
      holder: holder,
      contender: contender,
      texts: texts,
      isLoadSensitive: isComputing || isLoadSensitive
    )
    self.interval = interval
    self.play = play
  }

  /// Stalls a turn with `work`, after `begin` has let another thread block it for a number of milliseconds.
  static func turn(
    _ name: String,
    _ cause: Cause,
    also: [Cause] = [],
    _ culprit: String,
    holder: String? = nil,
    texts: [String] = [],
    interval: Duration = .milliseconds(50),
    after begin: @escaping @Sendable (UInt32) -> Void = { _ in },
    _ work: @escaping @Sendable () -> Void
  ) -> Scenario {
    Scenario(name, cause, also: also, culprit, holder: holder, texts: texts, interval: interval) { stage in
      begin(1800)
      try stage.turn(work)
    }
  }

  /// Stalls a turn forever with `work`, after `begin` has let another thread take its lock.
  static func deadlock(
    _ name: String,
    _ culprit: String,
    holder: String,
    after begin: @escaping @Sendable () -> Void = {},
    _ work: @escaping @Sendable () -> Void
  ) -> Scenario {
    Scenario(name, .deadlock, culprit, holder: holder) { stage in
      begin()
      try stage.endlessTurn(work)
    }
  }

  static let all =
    computing + deallocations + locks + deadlocks + signals + threadEnds + initializations + loaders + files + network
    + otherProcesses + sleeping + processors + memory + congestion + tasks + nearMisses + mixed

  /// The first for each cause.
  static let some: [Scenario] = {
    var causes: Set<Cause> = []
    return all.filter { causes.insert($0.truth.cause).inserted }
  }()
}

/// A resource that a scenario needs is missing on this machine.
struct Unavailable: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

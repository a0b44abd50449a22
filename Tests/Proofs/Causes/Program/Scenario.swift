import Foundation
import Judges

/// A stall with a known cause, and the code that produces it.
struct Scenario: Sendable {
  typealias Language = CauseTruth.Language
  typealias Cause = CauseTruth.Cause
  typealias Work = CauseTruth.Work

  enum Trait { case nearMiss, mixed, loadSensitive, deadlock, root, dense }

  var truth: CauseTruth
  /// The interval of samples.
  var interval: Duration
  var play: @Sendable (Stage) throws -> Void

  var name: String { truth.name }

  /// Creates a scenario whose `play` watches a source and stalls it. Computing scenarios are always load-sensitive.
  init(
    _ name: String,
    _ language: Language,
    _ cause: Cause,
    also: [Cause] = [],
    _ culprit: String?,
    holder: String? = nil,
    contender: String? = nil,
    texts: [String]? = nil,
    work: Work? = nil,
    _ traits: Set<Trait> = [],
    play: @escaping @Sendable (Stage) throws -> Void
  ) {
    let causes = [cause] + also
    let isComputing = cause != .noCPU && (causes.contains(.computing) || cause == .deallocation)
    truth = CauseTruth(
      name: name,
      language: language,
      cause: cause,
      also: also.isEmpty ? nil : also,
      culprit: culprit,
      holder: holder,
      contender: contender,
      texts: texts,
      deadlock: traits.contains(.deadlock) ? true : nil,
      work: work,
      needs: traits.contains(.root) ? "root" : nil,
      nearMiss: traits.contains(.nearMiss) ? true : nil,
      mixed: traits.contains(.mixed) ? true : nil,
      loadSensitive: isComputing || traits.contains(.loadSensitive) ? true : nil
    )
    interval = .milliseconds(traits.contains(.dense) ? 10 : 50)
    self.play = play
  }

  /// The truth as JSON.
  var line: String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return (try? encoder.encode(truth)).map { String(decoding: $0, as: UTF8.self) } ?? ""
  }

  static let all =
    computing + deallocations + locks + deadlocks + signals + threadEnds + initializations + loaders + files + network
    + otherProcesses + sleeping + processors + memory + congestion + tasks + nearMisses + mixed
}

extension Scenario {
  /// The first scenario of each cause.
  static let some: [Scenario] = {
    var counts: [Cause: Int] = [:]
    return all.filter { scenario in
      counts[scenario.truth.cause, default: 0] += 1
      return counts[scenario.truth.cause] == 1
    }
  }()
}

/// The error for a resource that this machine lacks.
struct Unavailable: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

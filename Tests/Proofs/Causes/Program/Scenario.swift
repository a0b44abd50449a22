import Foundation

/// A stall, what it is known to be, and how it comes about.
struct Scenario: Sendable {
  enum Language: String, Encodable { case swift, c, cpp }

  /// What a watched source can be held up by.
  enum Cause: String, Encodable {
    case computing, deallocation, lock, deadlock, signal, threadEnd, initialization, loader, file, network, interProcess
    case childProcess, sleep, noProcessor, memory, suspension, congestion, awaiting
  }

  /// What is computed.
  enum Work: String, Encodable {
    case ownCode, allocation, text, json, regularExpressions, sorting, compression, collections
  }

  enum Trait { case nearMiss, mixed, loadSensitive, deadlock, root }

  /// What is known, as it is listed. Values that say nothing are left out.
  struct Truth: Encodable {
    var name: String
    var language: Language
    var cause: Cause
    var also: [Cause]?
    var culprit: String?
    var holder: String?
    var deadlock: Bool?
    var work: Work?
    var needs: String?
    var nearMiss: Bool?
    var mixed: Bool?
    var loadSensitive: Bool?
  }

  var truth: Truth
  var play: @Sendable (Stage) throws -> Void

  var name: String { truth.name }

  /// `play` watches and stalls. What computes is load-sensitive by itself.
  init(
    _ name: String,
    _ language: Language,
    _ cause: Cause,
    also: [Cause] = [],
    _ culprit: String?,
    holder: String? = nil,
    work: Work? = nil,
    _ traits: Set<Trait> = [],
    play: @escaping @Sendable (Stage) throws -> Void
  ) {
    let causes = [cause] + also
    let isComputing = cause != .noProcessor && (causes.contains(.computing) || cause == .deallocation)
    truth = Truth(
      name: name,
      language: language,
      cause: cause,
      also: also.isEmpty ? nil : also,
      culprit: culprit,
      holder: holder,
      deadlock: traits.contains(.deadlock) ? true : nil,
      work: work,
      needs: traits.contains(.root) ? "root" : nil,
      nearMiss: traits.contains(.nearMiss) ? true : nil,
      mixed: traits.contains(.mixed) ? true : nil,
      loadSensitive: isComputing || traits.contains(.loadSensitive) ? true : nil
    )
    self.play = play
  }

  /// As JSON.
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
  /// The first for each cause.
  static let some: [Scenario] = {
    var counts: [Cause: Int] = [:]
    return all.filter { scenario in
      counts[scenario.truth.cause, default: 0] += 1
      return counts[scenario.truth.cause] == 1
    }
  }()
}

/// What it takes is not there.
struct Unavailable: Error, CustomStringConvertible {
  var description: String
  init(_ description: String) { self.description = description }
}

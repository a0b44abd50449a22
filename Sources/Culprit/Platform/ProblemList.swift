import CulpritStallRecord

/// Problems, as sentences for `Watchdog.Status.problems`.
final class ProblemList: Sendable {
  /// Maximum number of sentences.
  private static let limit = 16

  private let sentences = Mutex<[String]>([])

  /// The sentences in the order in which they were added.
  var all: [String] { sentences.withLock { $0 } }

  /// Adds `sentence`, unless the list contains it or is full.
  func note(_ sentence: String) {
    let sentence = printable(sentence)
    sentences.withLock { sentences in
      if sentences.count < Self.limit, !sentences.contains(sentence) { sentences.append(sentence) }
    }
  }
}

import CulpritStallRecord

/// Problems, as sentences for `Watchdog.Status.problems`.
final class ProblemList: Sendable {
  /// A kind of problem that can end.
  enum Kind: Hashable {
    case creating, writing, syncing
    /// The disk thread's queue is full.
    case queueing
  }

  private static let limit = 16

  private let sentences = Mutex<[(text: String, kind: Kind?)]>([])

  var all: [String] { sentences.withLock { $0.map(\.text) } }

  /// Adds `sentence`, unless the list is full or contains this sentence or another of this `kind`.
  func note(_ sentence: String, _ kind: Kind? = nil) {
    let sentence = printable(sentence)
    sentences.withLock { sentences in
      guard sentences.count < Self.limit,
        !sentences.contains(where: { $0.text == sentence || kind != nil && $0.kind == kind })
      else { return }
      sentences.append((sentence, kind))
    }
  }

  func end(_ kind: Kind) { sentences.withLock { $0.removeAll { $0.kind == kind } } }
}

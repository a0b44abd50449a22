import CulpritStallRecord

/// Problems, as sentences for `Watchdog.Status.problems`.
final class ProblemList: Sendable {
  /// A kind of problem that can end.
  enum Kind: Hashable {
    case creating, writing, syncing
    /// The queue of the disk thread has no room for a stall.
    case queueing
  }

  private static let limit = 16

  private let sentences = Mutex<[(text: String, kind: Kind?)]>([])

  var all: [String] { sentences.withLock { $0.map(\.text) } }

  /// Adds `sentence`, unless the list contains it or another one of its `kind`, or is full.
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

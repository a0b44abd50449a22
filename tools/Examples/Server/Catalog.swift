import Glibc

/// Documents and an index of their words.
public struct Catalog: Sendable {
  private let documents: [String]
  private var index: [Substring: [Int]] = [:]

  /// Creates a catalog of `count` generated documents.
  public init(documents count: Int) {
    let words = ["lamp", "table", "chair", "mirror", "shelf", "curtain", "carpet", "clock", "vase", "frame", "stool"]
    documents = (0..<count)
      .map { number in
        func word(_ place: Int) -> String { words[(number &* 31 &+ place &* (place &+ number)) % words.count] }
        return (0..<40).map { "\(word($0))\(($0 &* number) % 97)" }.joined(separator: " ")
      }
    rebuildIndex(for: .zero)
  }

  /// Returns the numbers of documents that contain `word`.
  public func search(_ word: String) -> [Int] { index[Substring(word)] ?? [] }

  /// Rebuilds the index repeatedly, at least once, for `duration`. This is the culprit of the stall.
  @inline(never)
  mutating func rebuildIndex(for duration: Duration) {
    let end = ContinuousClock.now + duration
    repeat {
      var rebuilt: [Substring: [Int]] = [:]
      for (number, document) in documents.enumerated() {
        for word in document.split(separator: " ") { rebuilt[word, default: []].append(number) }
      }
      index = rebuilt
    } while ContinuousClock.now < end
  }

  /// Writes snapshots for `duration`. This code happens to run when a watchdog fires.
  @inline(never)
  func writeSnapshot(for duration: Duration) {
    let end = ContinuousClock.now + duration
    var checksum: UInt64 = 0
    repeat {
      for document in documents { checksum = Self.checksum(document, seed: checksum) }
    } while ContinuousClock.now < end
    lastChecksum = checksum
  }

  @inline(never)
  private static func checksum(_ document: String, seed: UInt64) -> UInt64 {
    document.utf8.reduce(seed) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
  }
}

/// Prevents the compiler from removing the unused computation.
nonisolated(unsafe) private var lastChecksum: UInt64 = 0

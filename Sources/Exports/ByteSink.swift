/// Where an export goes, in pieces: it is never in memory as a whole.
package final class ByteSink {
  /// What is written at once.
  private static let pieceBytes = 64 << 10

  private var pending: [UInt8] = []
  private let out: ([UInt8]) throws -> Void

  /// Writes to `out`.
  package init(_ out: @escaping ([UInt8]) throws -> Void) { self.out = out }

  /// Writes `text`.
  package func write(_ text: String) throws {
    pending.append(contentsOf: text.utf8)
    if pending.count >= Self.pieceBytes { try flush() }
  }

  /// Writes `bytes`.
  package func write(_ bytes: some Collection<UInt8>) throws {
    pending.append(contentsOf: bytes)
    if pending.count >= Self.pieceBytes { try flush() }
  }

  /// Writes what each of `elements` is in `text`, with commas between them, as an array of JSON.
  func writeArray<Element>(_ elements: some Sequence<Element>, _ text: (Element) -> String) throws {
    try write("[")
    var isFirst = true
    for element in elements {
      if !isFirst { try write(",") }
      isFirst = false
      try write(text(element))
    }
    try write("]")
  }

  /// Hands over what has not been.
  package func flush() throws {
    guard !pending.isEmpty else { return }
    try out(pending)
    pending.removeAll(keepingCapacity: true)
  }
}

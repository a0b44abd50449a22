/// Buffers the bytes of an export and writes them in pieces, which bounds memory.
package final class ByteSink {
  /// The buffered size that triggers a write.
  private static let pieceBytes = 64 << 10

  private var pending: [UInt8] = []
  private let out: ([UInt8]) throws -> Void

  package init(_ out: @escaping ([UInt8]) throws -> Void) { self.out = out }

  package func write(_ text: String) throws {
    pending.append(contentsOf: text.utf8)
    if pending.count >= Self.pieceBytes { try flush() }
  }

  package func write(_ bytes: some Collection<UInt8>) throws {
    pending.append(contentsOf: bytes)
    if pending.count >= Self.pieceBytes { try flush() }
  }

  /// `text` returns the JSON text of an element.
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

  package func flush() throws {
    guard !pending.isEmpty else { return }
    try out(pending)
    pending.removeAll(keepingCapacity: true)
  }
}

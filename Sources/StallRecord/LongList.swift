package protocol OverflowStore: AnyObject, Sendable {
  /// Stores `bytes`. Returns their position, or `nil` on failure.
  func append(_ bytes: UnsafeRawBufferPointer) -> Int?
  /// Fills `bytes` with the data stored at `place`. Ends the process on failure.
  func read(_ place: Int, into bytes: UnsafeMutableRawBufferPointer)
}

/// A sequence of values, limited by disk space. At most one piece is in memory.
///
/// Without a store, or if it rejects data, the values stay in memory.
package struct LongList<Element: BitwiseCopyable & Sendable>: Sequence, Sendable {
  private enum Piece {
    case inMemory([Element])
    case stored(Int)
  }

  private static var pieceCount: Int { Swift.max(1, (64 << 10) / MemoryLayout<Element>.stride) }

  private var pieces: [Piece] = []
  private var rest: [Element] = []
  private let store: (any OverflowStore)?

  package private(set) var first: Element?

  /// Creates an empty list.
  ///
  /// - Parameter store: The storage for values that do not fit into memory.
  package init(store: (any OverflowStore)? = nil) { self.store = store }

  package var count: Int { pieces.count * Self.pieceCount + rest.count }

  package var isEmpty: Bool { rest.isEmpty }

  package var last: Element? { rest.last }

  package mutating func append(_ element: Element) {
    if rest.count == Self.pieceCount {
      pieces.append(rest.withUnsafeBytes { store?.append($0) }.map(Piece.stored) ?? .inMemory(rest))
      rest.removeAll(keepingCapacity: true)
    }
    if first == nil { first = element }
    rest.append(element)
  }

  package mutating func updateLast(_ body: (inout Element) -> Void) {
    guard let place = rest.indices.last else { return }
    body(&rest[place])
    if count == 1 { first = rest[place] }
  }

  package mutating func append(contentsOf elements: some Sequence<Element>) {
    for element in elements { append(element) }
  }

  /// Calls `body` with all values, piece by piece.
  package func forEachPiece<Failure: Error>(_ body: ([Element]) throws(Failure) -> Void) throws(Failure) {
    for piece in pieces { try body(values(of: piece)) }
    if !rest.isEmpty { try body(rest) }
  }

  package func makeIterator() -> Iterator { Iterator(list: self) }

  package struct Iterator: IteratorProtocol {
    fileprivate init(list: LongList) { self.list = list }

    private let list: LongList
    private var piece = 0
    private var values: [Element] = []
    private var place = 0

    package mutating func next() -> Element? {
      if place == values.count {
        guard piece <= list.pieces.count else { return nil }
        values = piece < list.pieces.count ? list.values(of: list.pieces[piece]) : list.rest
        piece += 1
        place = 0
        guard !values.isEmpty else { return nil }
      }
      defer { place += 1 }
      return values[place]
    }
  }

  private func values(of piece: Piece) -> [Element] {
    switch piece {
    case .inMemory(let values): return values
    case .stored(let place):
      return [Element](unsafeUninitializedCapacity: Self.pieceCount) { buffer, count in
        // SAFETY: the stored data consists of `pieceCount` values of a bitwise copyable type. The store fills the whole
        // buffer or does not return.
        store?.read(place, into: UnsafeMutableRawBufferPointer(buffer))
        count = Self.pieceCount
      }
    }
  }
}

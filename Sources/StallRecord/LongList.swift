/// Where values go of which there are too many to be kept in memory: a file without a name, as a rule.
package protocol OverflowStore: AnyObject, Sendable {
  /// Keeps `bytes`. Returns their place; `nil` where they cannot be kept.
  func append(_ bytes: UnsafeRawBufferPointer) -> Int?
  /// Fills `bytes` with what is kept at `place`. There is no way back from a failure: the process ends.
  func read(_ place: Int, into bytes: UnsafeMutableRawBufferPointer)
}

/// Values in their order, as many as a disk has room for: no more of them are in memory than a piece.
///
/// Without a store, and where it takes nothing more, they stay in memory.
package struct LongList<Element: BitwiseCopyable & Sendable>: Sequence, Sendable {
  private enum Piece {
    case inMemory([Element])
    case stored(Int)
  }

  /// The values that are kept at once.
  private static var pieceCount: Int { Swift.max(1, (64 << 10) / MemoryLayout<Element>.stride) }

  /// Each has ``pieceCount`` values.
  private var pieces: [Piece] = []
  private var rest: [Element] = []
  private let store: (any OverflowStore)?

  /// The first value.
  package private(set) var first: Element?

  /// A list without values.
  ///
  /// - Parameter store: Where those go that are too many.
  package init(store: (any OverflowStore)? = nil) { self.store = store }

  /// How many values there are.
  package var count: Int { pieces.count * Self.pieceCount + rest.count }

  /// Whether there is none.
  package var isEmpty: Bool { rest.isEmpty }

  /// The last value.
  package var last: Element? { rest.last }

  /// Adds `element` at the end.
  package mutating func append(_ element: Element) {
    if rest.count == Self.pieceCount {
      pieces.append(rest.withUnsafeBytes { store?.append($0) }.map(Piece.stored) ?? .inMemory(rest))
      rest.removeAll(keepingCapacity: true)
    }
    if first == nil { first = element }
    rest.append(element)
  }

  /// Changes the last value, if there is one.
  package mutating func updateLast(_ body: (inout Element) -> Void) {
    guard let place = rest.indices.last else { return }
    body(&rest[place])
    if count == 1 { first = rest[place] }
  }

  /// Adds `elements` at the end.
  package mutating func append(contentsOf elements: some Sequence<Element>) {
    for element in elements { append(element) }
  }

  /// Gives all values to `body`, piece by piece.
  package func forEachPiece<Failure: Error>(_ body: ([Element]) throws(Failure) -> Void) throws(Failure) {
    for piece in pieces { try body(values(of: piece)) }
    if !rest.isEmpty { try body(rest) }
  }

  /// The values from the first on.
  package func makeIterator() -> Iterator { Iterator(list: self) }

  /// Goes through a list.
  package struct Iterator: IteratorProtocol {
    fileprivate init(list: LongList) { self.list = list }

    private let list: LongList
    private var piece = 0
    private var values: [Element] = []
    private var place = 0

    /// The next value.
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
        // SAFETY: what was kept there are so many values, whose bytes are all that they are made of; the store fills all of the
        // buffer, or does not return.
        store?.read(place, into: UnsafeMutableRawBufferPointer(buffer))
        count = Self.pieceCount
      }
    }
  }
}

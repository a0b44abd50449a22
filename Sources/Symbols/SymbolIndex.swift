import CCulpritLinux
import CulpritStallRecord

/// Finds the symbol that covers an address, in a table sorted by address.
struct SymbolIndex {
  struct Symbol {
    /// The quality of a name, best first.
    enum Rank: UInt8, Comparable {
      case globalFunction, weakFunction, localFunction, label

      static func < (left: Rank, right: Rank) -> Bool { left.rawValue < right.rawValue }
    }

    var start: UInt64
    /// One past the last address; equal to `start` if the size is unknown.
    var end: UInt64
    var rank: Rank
    /// The offset of the name in the string table.
    var name: UInt32
    /// The offset of the name of a local symbol's source file; 0 if unknown.
    var file: UInt32 = 0
    var hasOtherNames = false

    /// Whether this name is better than `other` for an address that both cover from the same start.
    func isBetter(than other: Symbol) -> Bool {
      let (sized, otherSized) = (end > start, other.end > other.start)
      if sized != otherSized { return sized }
      if rank != other.rank { return rank < other.rank }
      if end != other.end { return end > other.end }
      return name < other.name
    }
  }

  private let symbols: [Symbol]
  /// The starts of ``symbols``, stored contiguously for fast searches.
  private let starts: [UInt64]
  /// Other, equally good names for the same starts, sorted by start.
  private let aliases: [(start: UInt64, name: UInt32)]
  /// Public names for starts whose best name is reserved for the C implementation, sorted by start.
  private let publicNames: [(start: UInt64, name: UInt32)]
  private let highestEnds: HighestEnds

  var count: Int { symbols.count }

  var byteCount: Int {
    symbols.capacity * 40 + starts.capacity * 8 + highestEnds.byteCount + (aliases.capacity + publicNames.capacity) * 16
  }

  /// Creates an index of `symbols` in any order. `limit` returns the end of the code that contains an address. A symbol
  /// of unknown length ends at this limit or at the next symbol. `isReserved` is whether the name at an offset begins
  /// with two underscores. Exported C library functions with a reserved name also have another name.
  init(_ symbols: [Symbol], limit: (UInt64) -> UInt64, isReserved: (UInt32) -> Bool = { _ in false }) {
    var kept: [Symbol] = []
    var aliases: [(start: UInt64, name: UInt32)] = []
    var publicNames: [(start: UInt64, name: UInt32)] = []
    kept.reserveCapacity(symbols.count)
    var functionEnd: UInt64 = 0
    for place in Self.order(symbols) {
      clinux_fork_yield()
      let symbol = symbols[place]
      // A label inside a function is a position, not another function.
      if symbol.rank == .label, symbol.end <= symbol.start, symbol.start < functionEnd { continue }
      if symbol.rank != .label { functionEnd = max(functionEnd, symbol.end) }
      guard let best = kept.last, best.start == symbol.start else {
        kept.append(symbol)
        continue
      }
      if symbol.rank < .localFunction, publicNames.last?.start != symbol.start, isReserved(best.name),
        !isReserved(symbol.name)
      {
        publicNames.append((symbol.start, symbol.name))
      }
      if symbol.rank == best.rank, symbol.rank != .label {
        aliases.append((symbol.start, symbol.name))
        kept[kept.count - 1].hasOtherNames = true
      }
    }
    self.aliases = aliases
    self.publicNames = publicNames
    for place in kept.indices where kept[place].end <= kept[place].start {
      let next = place + 1 < kept.count ? kept[place + 1].start : UInt64.max
      kept[place].end = min(next, max(limit(kept[place].start), kept[place].start))
    }
    self.symbols = kept
    starts = kept.map { $0.start }
    highestEnds = HighestEnds(kept.lazy.map { AddressRange(start: $0.start, end: $0.end) })
  }

  private struct Key {
    var distance: UInt64
    var place: Int
  }

  /// Returns the indices of `symbols`, sorted by start, then by quality.
  ///
  /// Uses a radix sort with 11 bits per pass, because comparing would take longer than reading the table. Loops over
  /// pointers, because sequences would take several times as long in debug builds.
  private static func order(_ symbols: [Symbol]) -> [Int] {
    var (lowest, highest) = (UInt64.max, UInt64.min)
    for symbol in symbols { (lowest, highest) = (min(lowest, symbol.start), max(highest, symbol.start)) }
    var keys: [Key] = []
    keys.reserveCapacity(symbols.count)
    for place in symbols.indices { keys.append(Key(distance: symbols[place].start - lowest, place: place)) }
    var sorted = keys
    var shift: UInt64 = 0
    var rest = lowest < highest ? highest - lowest : 0
    while rest > 0 {
      keys.withUnsafeBufferPointer { keys in
        sorted.withUnsafeMutableBufferPointer { sorted in
          guard let keys = keys.baseAddress, let sorted = sorted.baseAddress else { return }
          distribute(keys, to: sorted, count: symbols.count, shift)
        }
      }
      swap(&keys, &sorted)
      shift += 11
      rest >>= 11
    }
    var first = 0
    while first < keys.count {
      var end = first + 1
      while end < keys.count, keys[end].distance == keys[first].distance { end += 1 }
      if end - first > 1 { keys[first..<end].sort { symbols[$0.place].isBetter(than: symbols[$1.place]) } }
      first = end
    }
    return keys.map { $0.place }
  }

  /// Copies `keys`, stably sorted by the 11 bits from `shift`, to `sorted`.
  private static func distribute(
    _ keys: UnsafePointer<Key>,
    to sorted: UnsafeMutablePointer<Key>,
    count: Int,
    _ shift: UInt64
  ) {
    withUnsafeTemporaryAllocation(of: Int.self, capacity: 1 << 11) { buffer in
      buffer.initialize(repeating: 0)
      guard let places = buffer.baseAddress else { return }
      // SAFETY: both arrays have `count` elements, and digits are below the 2,048 counters.
      var index = 0
      while index < count {
        places[Int(keys[index].distance &>> shift & 0x7ff)] += 1
        index += 1
      }
      var sum = 0
      index = 0
      while index < 1 << 11 {
        (places[index], sum) = (sum, sum + places[index])
        index += 1
      }
      index = 0
      while index < count {
        clinux_fork_yield()
        let digit = Int(keys[index].distance &>> shift & 0x7ff)
        sorted[places[digit]] = keys[index]
        places[digit] += 1
        index += 1
      }
    }
  }

  /// Returns the symbol that covers `address`, or of several, the one with the highest start.
  func symbol(at address: FileAddress) -> Symbol? {
    let last = starts.withUnsafeBufferPointer { $0.partitioningIndex { $0 > address.value } } - 1
    return highestEnds.place(at: address.value, from: last) { symbols[$0].end }.map { symbols[$0] }
  }

  func globalFunction(_ isWanted: (UInt32) -> Bool) -> UInt64? {
    symbols.first { $0.rank == .globalFunction && isWanted($0.name) }?.start
      ?? aliases.first { isWanted($0.name) }?.start
  }

  func forEach(_ visit: (Symbol) -> Void) { symbols.forEach(visit) }

  /// If the best name at `start` is reserved, returns the offset of an unreserved one.
  func publicName(at start: UInt64) -> UInt32? {
    let first = publicNames.partitioningIndex { $0.start >= start }
    return first < publicNames.count && publicNames[first].start == start ? publicNames[first].name : nil
  }

  /// Returns the offsets of the other, equally good names for the code at `start`.
  func otherNames(at start: UInt64) -> [UInt32] {
    let first = aliases.partitioningIndex { $0.start >= start }
    return aliases[first...].prefix { $0.start == start }.map(\.name)
  }
}

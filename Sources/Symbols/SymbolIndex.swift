import CCulpritLinux
import CulpritStallRecord

/// Finds the symbol that covers an address, in a table sorted by address.
struct SymbolIndex {
  /// One symbol as it is found in a table.
  struct Symbol {
    /// What a symbol is for, the better names first.
    enum Rank: UInt8, Comparable {
      case globalFunction, weakFunction, localFunction, label

      static func < (left: Rank, right: Rank) -> Bool { left.rawValue < right.rawValue }
    }

    var start: UInt64
    /// One past the end; `start` itself when the table does not say how long the symbol is.
    var end: UInt64
    var rank: Rank
    /// Where the name is, for whoever holds the string table.
    var name: UInt32
    /// Where the name of the source file is that a local symbol is from; 0 when that is not known.
    var file: UInt32 = 0
    /// Whether there are other names for the same start that are as good.
    var hasOtherNames = false

    /// Whether this name should stand for an address that `other` covers from the same start.
    func isBetter(than other: Symbol) -> Bool {
      let (sized, otherSized) = (end > start, other.end > other.start)
      if sized != otherSized { return sized }
      if rank != other.rank { return rank < other.rank }
      if end != other.end { return end > other.end }
      return name < other.name
    }
  }

  private let symbols: [Symbol]
  /// The starts of ``symbols``, close together for fast searches.
  private let starts: [UInt64]
  /// Other names for the same starts that are as good, sorted by start.
  private let aliases: [(start: UInt64, name: UInt32)]
  /// For starts whose best name is reserved for the implementation of C, one that is not; sorted by start.
  private let publicNames: [(start: UInt64, name: UInt32)]
  /// The highest end among the symbols up to each place, where a backward search can stop. Empty if no symbol lies in another.
  private let highestEnd: [UInt64]

  var count: Int { symbols.count }

  /// How much memory the index takes, about.
  var byteCount: Int {
    symbols.capacity * 40 + (starts.capacity + highestEnd.capacity) * 8 + (aliases.capacity + publicNames.capacity) * 16
  }

  /// An index of `symbols`.
  ///
  /// - Parameters:
  ///   - symbols: The symbols, in any order.
  ///   - limit: The end of the code that contains an address, which bounds symbols of unknown length; such a symbol also
  ///     ends where the next one starts.
  ///   - isReserved: Whether the name at a place is one that begins with two underscores: those of the C library that it exports
  ///     have others beside.
  init(_ symbols: [Symbol], limit: (UInt64) -> UInt64, isReserved: (UInt32) -> Bool = { _ in false }) {
    var kept: [Symbol] = []
    var aliases: [(start: UInt64, name: UInt32)] = []
    var publicNames: [(start: UInt64, name: UInt32)] = []
    kept.reserveCapacity(symbols.count)
    var functionEnd: UInt64 = 0
    for place in Self.order(symbols) {
      clinux_fork_yield()
      let symbol = symbols[place]
      // A label inside a function is a place in it, not another one.
      if symbol.rank == .label, symbol.end <= symbol.start, symbol.start < functionEnd { continue }
      if symbol.rank != .label { functionEnd = max(functionEnd, symbol.end) }
      if kept.last?.start == symbol.start, symbol.rank < .localFunction, publicNames.last?.start != symbol.start,
        let best = kept.last, isReserved(best.name), !isReserved(symbol.name)
      {
        publicNames.append((symbol.start, symbol.name))
      }
      if kept.last?.start != symbol.start {
        kept.append(symbol)
      } else if symbol.rank == kept.last?.rank, symbol.rank != .label {
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
    starts = kept.map(\.start)
    var highest: UInt64 = 0
    let highestEnd = kept.map {
      highest = max(highest, $0.end)
      return highest
    }
    let isNested = zip(highestEnd, starts.dropFirst()).contains { $0 > $1 }
    self.highestEnd = isNested ? highestEnd : []
  }

  /// The places of `symbols` in the order of their starts; of several with one start the best is the first.
  ///
  /// A radix sort, by 11 bits at a time: comparing takes longer than to read the table.
  private static func order(_ symbols: [Symbol]) -> [Int] {
    guard let lowest = symbols.lazy.map(\.start).min(), let highest = symbols.lazy.map(\.start).max() else { return [] }
    var keys = symbols.enumerated().map { (distance: $1.start - lowest, place: $0) }
    var sorted = keys
    var shift: UInt64 = 0
    while (highest - lowest) >> shift > 0 {
      keys.withUnsafeBufferPointer { keys in
        sorted.withUnsafeMutableBufferPointer { sorted in
          var places = [Int](repeating: 0, count: 1 << 11)
          for key in keys { places[Int(key.distance >> shift & 0x7ff)] += 1 }
          var sum = 0
          for digit in places.indices { (places[digit], sum) = (sum, sum + places[digit]) }
          for key in keys {
            clinux_fork_yield()
            let digit = Int(key.distance >> shift & 0x7ff)
            sorted[places[digit]] = key
            places[digit] += 1
          }
        }
      }
      swap(&keys, &sorted)
      shift += 11
    }
    var first = 0
    while first < keys.count {
      let end = keys[first...].firstIndex { $0.distance != keys[first].distance } ?? keys.count
      if end - first > 1 { keys[first..<end].sort { symbols[$0.place].isBetter(than: symbols[$1.place]) } }
      first = end
    }
    return keys.map(\.place)
  }

  /// The symbol that covers `address`; the one that starts last when several do.
  func symbol(at address: FileAddress) -> Symbol? {
    var place = starts.withUnsafeBufferPointer { $0.partitioningIndex { $0 > address.value } } - 1
    if highestEnd.isEmpty {
      return place >= 0 && symbols[place].end > address.value ? symbols[place] : nil
    }
    while place >= 0, highestEnd[place] > address.value {
      if symbols[place].end > address.value { return symbols[place] }
      place -= 1
    }
    return nil
  }

  /// The start of the first exported function with a name for which `isWanted` is true.
  func globalFunction(_ isWanted: (UInt32) -> Bool) -> UInt64? {
    symbols.first { $0.rank == .globalFunction && isWanted($0.name) }?.start
      ?? aliases.first { isWanted($0.name) }?.start
  }

  /// Calls `visit` with each symbol.
  func forEach(_ visit: (Symbol) -> Void) { symbols.forEach(visit) }

  /// Where a name of what begins at `start` is that is not reserved, where the best one is; `nil` when there is none.
  func publicName(at start: UInt64) -> UInt32? {
    let first = publicNames.partitioningIndex { $0.start >= start }
    return first < publicNames.count && publicNames[first].start == start ? publicNames[first].name : nil
  }

  /// Where the other names of what begins at `start` are that are as good as the one that stands for it: of constructors
  /// for complete objects and for parts, of exported functions.
  func otherNames(at start: UInt64) -> [UInt32] {
    let first = aliases.partitioningIndex { $0.start >= start }
    return aliases[first...].prefix { $0.start == start }.map(\.name)
  }
}

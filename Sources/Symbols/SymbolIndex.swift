import StallRecord

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
  /// The highest end among the symbols up to each place: tells when searching backwards can stop.
  private let highestEnd: [UInt64]

  var count: Int { symbols.count }

  /// An index of `symbols`.
  ///
  /// - Parameters:
  ///   - symbols: The symbols, in any order.
  ///   - limit: The end of the code that contains an address, which bounds symbols of unknown length; such a symbol also
  ///     ends where the next one starts.
  init(_ symbols: [Symbol], limit: (UInt64) -> UInt64) {
    var kept: [Symbol] = []
    kept.reserveCapacity(symbols.count)
    for symbol in symbols.sorted(by: { $0.start != $1.start ? $0.start < $1.start : $0.isBetter(than: $1) })
    where kept.last?.start != symbol.start {
      kept.append(symbol)
    }
    for place in kept.indices where kept[place].end <= kept[place].start {
      let next = place + 1 < kept.count ? kept[place + 1].start : UInt64.max
      kept[place].end = min(next, max(limit(kept[place].start), kept[place].start))
    }
    self.symbols = kept
    var highest: UInt64 = 0
    highestEnd = kept.map {
      highest = max(highest, $0.end)
      return highest
    }
  }

  /// The symbol that covers `address`; the one that starts last when several do.
  func symbol(at address: FileAddress) -> Symbol? {
    var low = 0
    var high = symbols.count
    while low < high {
      let middle = (low + high) / 2
      if symbols[middle].start <= address.value { low = middle + 1 } else { high = middle }
    }
    var place = low - 1
    while place >= 0, highestEnd[place] > address.value {
      if symbols[place].end > address.value { return symbols[place] }
      place -= 1
    }
    return nil
  }
}

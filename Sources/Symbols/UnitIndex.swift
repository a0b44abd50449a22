import CCulpritLinux
import CulpritStallRecord

/// Finds the unit of debug information that covers an address. Reads the short `.debug_aranges` first.
struct UnitIndex {
  private struct Entry {
    var range: AddressRange
    var unit: Int
  }

  private let entries: [Entry]
  private let highestEnds: HighestEnds

  private init(_ entries: [Entry]) {
    self.entries = entries.sorted {
      clinux_fork_yield()
      // If two units contain the same code, the first one in the file takes precedence.
      return $0.range.start != $1.range.start ? $0.range.start < $1.range.start : $0.unit > $1.unit
    }
    highestEnds = HighestEnds(self.entries.lazy.map(\.range))
  }

  /// Returns the offset of the unit that covers `address`, or of several, the one whose code starts last.
  func unit(at address: UInt64) -> Int? {
    let last = entries.partitioningIndex { $0.range.start > address } - 1
    return highestEnds.place(at: address, from: last) { entries[$0].range.end }.map { entries[$0].unit }
  }

  func units(beside address: UInt64) -> [Int] {
    let place = entries.partitioningIndex { $0.range.start > address }
    return [place - 1, place].filter(entries.indices.contains).map { entries[$0].unit }
  }

  static func fromAddressRanges(_ file: DwarfFile) -> (index: UnitIndex, units: Set<Int>) {
    file.addressRanges.requireAll()
    let section = file.addressRanges.bytes
    var entries: [Entry] = []
    var units: Set<Int> = []
    var position = 0
    while position < section.count {
      clinux_fork_yield()
      var cursor = section.cursor(at: position)
      var length = UInt64(cursor.u32())
      let isWide = length == 0xffff_ffff
      if isWide { length = cursor.u64() }
      // An empty set ends the section.
      guard let bytes = Int(exactly: length), bytes > 0, !cursor.hasFailed, bytes <= cursor.remaining else { break }
      let end = section.count - cursor.remaining + bytes
      let version = cursor.u16()
      let unit = Int(exactly: cursor.offset(isWide: isWide)) ?? .max
      let (addressBytes, selectorBytes) = (Int(cursor.u8()), cursor.u8())
      if version == 2, selectorBytes == 0, addressBytes == 8 || addressBytes == 4 {
        // The pairs are aligned to their size, from the set's beginning.
        let read = section.count - cursor.remaining - position
        let pair = addressBytes * 2
        var pairs = section.cursor(at: position + (read + pair - 1) / pair * pair, end: end)
        while pairs.remaining >= pair {
          let (start, size) = (pairs.address(bytes: addressBytes), pairs.number(bytes: addressBytes))
          if start == 0, size == 0 { break }
          let (last, overflow) = start.addingReportingOverflow(size)
          if start != 0, size > 0, !overflow {
            entries.append(Entry(range: AddressRange(start: start, end: last), unit: unit))
          }
        }
        units.insert(unit)
      }
      position = end
    }
    return (UnitIndex(entries), units)
  }

  static func fromUnits(_ file: DwarfFile, except known: Set<Int>) -> UnitIndex {
    var entries: [Entry] = []
    file.renewRangeBudget()
    for header in file.allHeaders where !known.contains(header.offset) {
      clinux_fork_yield()
      let unit = DwarfUnit(file, header, nil, nil)
      guard unit.tag == Tag.compileUnit || unit.tag == Tag.skeletonUnit else { continue }
      for range in unit.codeRanges { entries.append(Entry(range: range, unit: header.offset)) }
    }
    return UnitIndex(entries)
  }
}

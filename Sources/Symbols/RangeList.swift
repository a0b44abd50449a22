package struct AddressRange: Equatable {
  package var start: UInt64
  /// One past the last address.
  package var end: UInt64

  @inline(__always) func contains(_ address: UInt64) -> Bool { start <= address && address < end }
}

/// The highest end of ranges up to each index, at which a backward search can stop. The ranges are sorted by start.
struct HighestEnds {
  /// Empty if ranges do not overlap.
  private var ends: [UInt64] = []

  init() {}

  init(_ ranges: some Sequence<AddressRange>) {
    var highest: UInt64 = 0
    var isNested = false
    let ends = ranges.map { range in
      isNested = isNested || range.start < highest
      highest = max(highest, range.end)
      return highest
    }
    if isNested { self.ends = ends }
  }

  var byteCount: Int { ends.capacity * 8 }

  /// Returns the last index up to `last` whose range covers `address`. `end` returns the end of a range.
  @inline(__always) func place(at address: UInt64, from last: Int, end: (Int) -> UInt64) -> Int? {
    var place = last
    while place >= 0, ends.isEmpty || ends[place] > address {
      if address < end(place) { return place }
      if ends.isEmpty { break }
      place -= 1
    }
    return nil
  }
}

enum RangeList {
  /// Maximum number of ranges of a function. A list with more ranges is corrupt.
  private static let countMax = 1 << 16

  static func old(_ section: Bytes, at offset: Int, base: UInt64, _ encoding: UnitEncoding) -> [AddressRange] {
    var cursor = section.cursor(at: offset)
    var base = base
    var ranges: [AddressRange] = []
    let width = Int(encoding.addressBytes)
    while ranges.count < countMax {
      let (start, end) = (cursor.address(bytes: width), cursor.address(bytes: width))
      if cursor.hasFailed || (start == 0 && end == 0) { break }
      // A base address selection entry (DWARF 4, 2.17.3).
      if start == .max {
        base = end
      } else {
        add(start &+ base, end &+ base, &ranges)
      }
    }
    return ranges
  }

  /// Reads a list in `.debug_rnglists` (DWARF 5, 7.25). `indexed` returns an address by its number in the unit's table.
  static func new(
    _ section: Bytes,
    at offset: Int,
    base: UInt64,
    _ encoding: UnitEncoding,
    _ indexed: (UInt64) -> UInt64?
  ) -> [AddressRange] {
    var cursor = section.cursor(at: offset)
    var base = base
    var ranges: [AddressRange] = []
    let width = Int(encoding.addressBytes)
    while ranges.count < countMax, !cursor.hasFailed {
      switch cursor.u8() {
      case 1: base = indexed(cursor.uleb()) ?? 0
      case 2:
        let (start, end) = (indexed(cursor.uleb()) ?? 0, indexed(cursor.uleb()) ?? 0)
        add(start, end, &ranges)
      case 3:
        let (start, length) = (indexed(cursor.uleb()) ?? 0, cursor.uleb())
        add(start, start &+ length, &ranges)
      case 4:
        let (start, end) = (cursor.uleb(), cursor.uleb())
        // Code that the linker dropped has its base at 0.
        if base != 0 || start != 0 { add(start &+ base, end &+ base, &ranges) }
      case 5: base = cursor.address(bytes: width)
      case 6:
        let (start, end) = (cursor.address(bytes: width), cursor.address(bytes: width))
        add(start, end, &ranges)
      case 7:
        let start = cursor.address(bytes: width)
        let length = cursor.uleb()
        add(start, start &+ length, &ranges)
      default: return ranges
      }
    }
    return ranges
  }

  private static func add(_ start: UInt64, _ end: UInt64, _ ranges: inout [AddressRange]) {
    if start != 0, start < end { ranges.append(AddressRange(start: start, end: end)) }
  }
}

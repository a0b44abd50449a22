import CElfutils
import StallRecord

/// Source lines for addresses, from a file's DWARF.
///
/// libdw decodes; which unit covers an address is looked up in an index of our own, because elfutils before 0.191 needs
/// `.debug_aranges` for that, which Swift and clang do not write.
final class LineTable {
  private struct UnitRange {
    var start: UInt64
    var end: UInt64
    var unit: Dwarf_Off
  }

  private let dwarf: OpaquePointer
  private let file: ElfFile  // keeps what `dwarf` reads from
  private let ranges: [UnitRange]

  /// The line tables of `file`, or `nil` when it has no debug information.
  init?(_ file: ElfFile) {
    guard let dwarf = dwarf_begin_elf(file.elf, DWARF_C_READ, nil) else { return nil }
    self.file = file
    self.dwarf = dwarf
    ranges = Self.unitRanges(dwarf)
    if ranges.isEmpty {
      dwarf_end(dwarf)
      return nil
    }
  }

  deinit { dwarf_end(dwarf) }

  /// The place in the source that the instruction at `address` comes from.
  func location(of address: FileAddress) -> SourceLocation? {
    var low = 0
    var high = ranges.count
    while low < high {
      let middle = (low + high) / 2
      if ranges[middle].start <= address.value { low = middle + 1 } else { high = middle }
    }
    var unit = Dwarf_Die()
    guard low > 0, address.value < ranges[low - 1].end,
      dwarf_offdie(dwarf, ranges[low - 1].unit, &unit) != nil,
      let line = dwarf_getsrc_die(&unit, address.value),
      let path = dwarf_linesrc(line, nil, nil)
    else { return nil }
    var number: Int32 = 0
    var column: Int32 = 0
    // Line 0 is the compiler's word for code that comes from no line.
    guard dwarf_lineno(line, &number) == 0, number > 0 else { return nil }
    // SAFETY: libdw returns a string that ends inside its section and lives as long as `dwarf`.
    let name = String(cString: path)
    guard !name.hasSuffix("<compiler-generated>") else { return nil }
    return SourceLocation(file: name, line: Int(number), column: dwarf_linecol(line, &column) == 0 ? Int(column) : 0)
  }

  private static func unitRanges(_ dwarf: OpaquePointer) -> [UnitRange] {
    var ranges: [UnitRange] = []
    var offset: Dwarf_Off = 0
    var next: Dwarf_Off = 0
    var headerSize = 0
    while dwarf_nextcu(dwarf, offset, &next, &headerSize, nil, nil, nil) == 0 {
      let dieOffset = offset + UInt64(headerSize)
      offset = next
      var unit = Dwarf_Die()
      guard dwarf_offdie(dwarf, dieOffset, &unit) != nil else { continue }
      var base: Dwarf_Addr = 0
      var start: Dwarf_Addr = 0
      var end: Dwarf_Addr = 0
      var position = 0
      while true {
        position = dwarf_ranges(&unit, position, &base, &start, &end)
        guard position > 0 else { break }
        // Code that the linker dropped keeps its range, at address 0.
        if start != 0, start < end { ranges.append(UnitRange(start: start, end: end, unit: dieOffset)) }
      }
    }
    return ranges.sorted { $0.start < $1.start }
  }
}

import CElfutils
import StallRecord

/// Source lines for addresses, from a file's DWARF.
///
/// libdw decodes; which unit covers an address is looked up in an index of our own, because elfutils before 0.191 needs
/// `.debug_aranges` for that, which Swift and clang do not write.
final class LineTable {
  /// Code of a compilation unit or a function, and where its debugging entry is.
  private struct CodeRange {
    var start: UInt64
    var end: UInt64
    var entry: Dwarf_Off
  }

  private let dwarf: OpaquePointer
  private let file: ElfFile  // keeps what `dwarf` reads from
  private let ranges: [CodeRange]
  private var functionsOfUnit: [Dwarf_Off: [CodeRange]] = [:]

  /// The line tables of `file`, or `nil` when it has no debug information.
  init?(_ file: ElfFile) {
    guard let dwarf = dwarf_begin_elf(file.elf, DWARF_C_READ, nil) else { return nil }
    self.file = file
    self.dwarf = dwarf
    var isDamaged = false
    ranges = Self.unitRanges(dwarf, &isDamaged)
    self.isDamaged = isDamaged
    if ranges.isEmpty { return nil }
  }

  deinit {
    // After an error in the abbreviations elfutils 0.188 frees them twice here. What is leaked instead is one damaged file's.
    if isDamaged {
      _ = Unmanaged.passRetained(file)
    } else {
      dwarf_end(dwarf)
    }
  }

  /// Whether libdw has met something invalid in this file.
  private var isDamaged = false

  /// Remembers whether libdw's last error was damage; most are mere answers ("no such address").
  private func noteDamage() { isDamaged = Self.lastErrorWasDamage() || isDamaged }

  private static func lastErrorWasDamage() -> Bool {
    let error = dwarf_errno()
    guard error != 0, let message = dwarf_errmsg(error) else { return false }
    return String(cString: message).hasPrefix("invalid")
  }

  /// The place in the source of the function at `address` that the instruction there comes from.
  ///
  /// Where the function has taken in others' code by inlining, that is where it calls the outermost of them: a line of
  /// the function itself, not of what was inlined into it.
  func location(of address: FileAddress) -> SourceLocation? {
    guard let range = covering(address.value, in: ranges) else { return nil }
    var unit = Dwarf_Die()
    defer { noteDamage() }
    guard dwarf_offdie(dwarf, range.entry, &unit) != nil else { return nil }
    return callOfInlinedCode(at: address.value, in: &unit) ?? lineRow(at: address.value, in: &unit)
  }

  /// The row of the line table that covers `address`.
  private func lineRow(at address: UInt64, in unit: inout Dwarf_Die) -> SourceLocation? {
    guard let line = dwarf_getsrc_die(&unit, address), let path = dwarf_linesrc(line, nil, nil) else { return nil }
    var number: Int32 = 0
    var column: Int32 = 0
    // Line 0 is the compiler's word for code that comes from no line.
    guard dwarf_lineno(line, &number) == 0, number > 0 else { return nil }
    return place(path, line: Int(number), column: dwarf_linecol(line, &column) == 0 ? Int(column) : 0)
  }

  /// Where the function at `address` calls the code that was inlined there; `nil` when none was.
  private func callOfInlinedCode(at address: UInt64, in unit: inout Dwarf_Die) -> SourceLocation? {
    let functions = functions(in: unit)
    noteDamage()
    guard let function = covering(address, in: functions) else { return nil }
    var die = Dwarf_Die()
    guard dwarf_offdie(dwarf, function.entry, &die) != nil, var inlined = outermostInlined(at: address, in: &die) else {
      return nil
    }
    var files: OpaquePointer?
    var fileCount = 0
    guard let fileNumber = number(DW_AT_call_file, of: &inlined), let line = number(DW_AT_call_line, of: &inlined),
      line > 0, dwarf_getsrcfiles(&unit, &files, &fileCount) == 0, fileNumber < fileCount,
      let path = dwarf_filesrc(files, Int(fileNumber), nil, nil)
    else { return nil }
    return place(path, line: Int(line), column: number(DW_AT_call_column, of: &inlined).map { Int($0) } ?? 0)
  }

  /// The inlined call that covers `address` and is in no other one, below `parent`.
  private func outermostInlined(at address: UInt64, in parent: inout Dwarf_Die, depth: Int = 0) -> Dwarf_Die? {
    var child = Dwarf_Die()
    // Scopes nest a few dozen deep; a tree that claims more is corrupt.
    guard depth < 256, dwarf_child(&parent, &child) == 0 else { return nil }
    repeat {
      switch dwarf_tag(&child) {
      case Int32(DW_TAG_inlined_subroutine) where dwarf_haspc(&child, address) > 0: return child
      case Int32(DW_TAG_lexical_block) where dwarf_haspc(&child, address) > 0:
        if let found = outermostInlined(at: address, in: &child, depth: depth + 1) { return found }
      default: break
      }
    } while Self.advance(&child)
    return nil
  }

  private func number(_ attribute: Int, of die: inout Dwarf_Die) -> Dwarf_Word? {
    var found = Dwarf_Attribute()
    var value: Dwarf_Word = 0
    guard dwarf_attr(&die, UInt32(attribute), &found) != nil, dwarf_formudata(&found, &value) == 0 else { return nil }
    return value
  }

  private func place(_ path: UnsafePointer<CChar>, line: Int, column: Int) -> SourceLocation? {
    // SAFETY: libdw returns a string that ends inside its section and lives as long as `dwarf`.
    let name = String(cString: path)
    return name.hasSuffix("<compiler-generated>") ? nil : SourceLocation(file: name, line: line, column: column)
  }

  /// The ranges of the functions of `unit`, by their debugging entries; read once.
  private func functions(in unit: Dwarf_Die) -> [CodeRange] {
    var unit = unit
    let offset = dwarf_dieoffset(&unit)
    if let known = functionsOfUnit[offset] { return known }
    var found: [CodeRange] = []
    collectFunctions(below: &unit, depth: 0, &found)
    found.sort { $0.start < $1.start }
    functionsOfUnit[offset] = found
    return found
  }

  private func collectFunctions(below parent: inout Dwarf_Die, depth: Int, _ found: inout [CodeRange]) {
    var child = Dwarf_Die()
    guard depth < 64, dwarf_child(&parent, &child) == 0 else { return }
    repeat {
      switch Int(dwarf_tag(&child)) {
      case DW_TAG_subprogram: found += Self.codeRanges(of: &child, as: dwarf_dieoffset(&child))
      case DW_TAG_namespace, DW_TAG_module, DW_TAG_class_type, DW_TAG_structure_type, DW_TAG_enumeration_type,
        DW_TAG_variant_part, DW_TAG_union_type:
        collectFunctions(below: &child, depth: depth + 1, &found)
      default: break
      }
    } while Self.advance(&child)
  }

  /// Moves `die` to its next sibling. Returns `false` when there is none.
  private static func advance(_ die: inout Dwarf_Die) -> Bool {
    var next = Dwarf_Die()
    guard dwarf_siblingof(&die, &next) == 0 else { return false }
    die = next
    return true
  }

  private func covering(_ address: UInt64, in ranges: [CodeRange]) -> CodeRange? {
    var low = 0
    var high = ranges.count
    while low < high {
      let middle = (low + high) / 2
      if ranges[middle].start <= address { low = middle + 1 } else { high = middle }
    }
    guard low > 0, address < ranges[low - 1].end else { return nil }
    return ranges[low - 1]
  }

  private static func unitRanges(_ dwarf: OpaquePointer, _ isDamaged: inout Bool) -> [CodeRange] {
    _ = dwarf_errno()
    var ranges: [CodeRange] = []
    var offset: Dwarf_Off = 0
    var next: Dwarf_Off = 0
    var headerSize = 0
    while dwarf_nextcu(dwarf, offset, &next, &headerSize, nil, nil, nil) == 0 {
      let dieOffset = offset + UInt64(headerSize)
      offset = next
      var unit = Dwarf_Die()
      guard dwarf_offdie(dwarf, dieOffset, &unit) != nil else { continue }
      ranges += codeRanges(of: &unit, as: dieOffset)
      isDamaged = lastErrorWasDamage() || isDamaged
    }
    isDamaged = lastErrorWasDamage() || isDamaged
    return ranges.sorted { $0.start < $1.start }
  }

  /// The code that `die` claims, for the debugging entry at `offset`.
  private static func codeRanges(of die: inout Dwarf_Die, as offset: Dwarf_Off) -> [CodeRange] {
    var ranges: [CodeRange] = []
    var base: Dwarf_Addr = 0
    var start: Dwarf_Addr = 0
    var end: Dwarf_Addr = 0
    var position = 0
    while true {
      position = dwarf_ranges(&die, position, &base, &start, &end)
      guard position > 0 else { return ranges }
      // Code that the linker dropped keeps its range, at address 0.
      if start != 0, start < end { ranges.append(CodeRange(start: start, end: end, entry: offset)) }
    }
  }
}

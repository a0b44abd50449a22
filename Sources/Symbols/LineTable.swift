import CCulpritLinux
import CulpritStallRecord

/// The line table of a unit (DWARF 5, 6.2).
final class LineTable {
  /// The source position of code that starts at an address.
  struct Row {
    /// The offset of the address from the sequence's beginning.
    var offset: UInt32
    var line: UInt32
    var file: UInt32
    var column: UInt16
    /// The number of the block on the line. ``LineTable/largeDiscriminators`` contains larger numbers.
    var discriminator: UInt16
  }

  struct Sequence {
    var range: AddressRange
    var first: Int
    var count: Int
  }

  private static let isLarge: UInt16 = .max

  private let file: DwarfFile  // keeps the names in `header` valid
  private let header: LineHeader
  private(set) var rows: [Row] = []
  private(set) var sequences: [Sequence] = []
  private var largeDiscriminators: [Int: UInt32] = [:]
  private var highestEnds = HighestEnds()
  private var paths: [String?] = []

  /// Reads the complete sequences of the table at `offset`. Paths are relative to the compilation's `directory`. Before
  /// DWARF 5, `addressBytes` is the size of an address.
  init?(_ file: DwarfFile, at offset: Int, directory: TextReference?, addressBytes: UInt8) {
    guard let header = LineHeader(file, at: offset, directory: directory, addressBytes: addressBytes) else {
      return nil
    }
    self.file = file
    self.header = header
    run(file.line.bytes)
    sequences.sort { $0.range.start != $1.range.start ? $0.range.start < $1.range.start : $0.first < $1.first }
    highestEnds = HighestEnds(sequences.lazy.map(\.range))
  }

  var byteCount: Int {
    rows.capacity * MemoryLayout<Row>.stride + sequences.capacity * MemoryLayout<Sequence>.stride + header.byteCount
  }

  func row(at address: UInt64) -> (row: Row, discriminator: UInt32)? {
    guard let sequence = sequence(at: address) else { return nil }
    let offset = address - sequence.range.start
    let rows = rows
    let place =
      rows[sequence.first..<sequence.first + sequence.count].partitioningIndex { UInt64($0.offset) > offset } - 1
    guard place >= sequence.first else { return nil }
    let row = rows[place]
    let discriminator =
      row.discriminator == Self.isLarge
      ? largeDiscriminators[place] ?? UInt32(row.discriminator) : UInt32(row.discriminator)
    return (row, discriminator)
  }

  /// Returns the first address in `address..<end` with a line and a column. Compilers omit the column at the beginning
  /// of a function.
  func firstColumn(from address: UInt64, before end: UInt64) -> UInt64? {
    guard let sequence = sequence(at: address) else { return nil }
    let all = rows[sequence.first..<sequence.first + sequence.count]
    let place = all.partitioningIndex { sequence.range.start + UInt64($0.offset) >= address }
    let found = all[place...].prefix { sequence.range.start + UInt64($0.offset) < end }.first {
      $0.line > 0 && $0.column > 0
    }
    return found.map { sequence.range.start + UInt64($0.offset) }
  }

  private func sequence(at address: UInt64) -> Sequence? {
    let sequences = sequences
    let last = sequences.partitioningIndex { $0.range.start > address } - 1
    return highestEnds.place(at: address, from: last) { sequences[$0].range.end }.map { sequences[$0] }
  }

  func path(_ file: UInt32) -> String? {
    guard file < header.fileNumbersEnd else { return nil }
    if paths.isEmpty { paths = [String?](repeating: nil, count: header.fileNumbersEnd) }
    if let known = paths[Int(file)] { return known }
    let path = header.path(file)
    paths[Int(file)] = path
    return path
  }

  // MARK: The line number program

  private struct State {
    var address: UInt64 = 0
    var file: UInt64 = 1
    var line: UInt32 = 1
    var column: UInt64 = 0
    var discriminator: UInt64 = 0
  }

  private func run(_ section: Bytes) {
    var cursor = section.cursor(at: header.program, end: header.end)
    var state = State()
    var builder = SequenceBuilder()
    var rows: [Row] = []
    rows.reserveCapacity(min((header.end - header.program) / 4, 1 << 20))
    let advance = UInt64(header.minimumInstruction)
    let constantAdd = UInt64((255 - header.opcodeBase) / header.lineRange) &* advance
    let (lineBase, lineRange, opcodeBase) = (header.lineBase, header.lineRange, header.opcodeBase)
    var steps = 0
    while !cursor.isAtEnd {
      steps &+= 1
      if steps & 0xfff == 0 { clinux_fork_yield() }
      let opcode = cursor.u8()
      if opcode >= opcodeBase {
        let adjusted = opcode - opcodeBase
        state.address &+= UInt64(adjusted / lineRange) &* advance
        state.line = state.line &+ UInt32(bitPattern: Int32(lineBase) + Int32(adjusted % lineRange))
        append(&state, &rows, &builder)
        continue
      }
      switch opcode {
      case 0: runExtended(&cursor, &state, &rows, &builder)
      case 1: append(&state, &rows, &builder)
      case 2: state.address &+= cursor.uleb() &* advance
      case 3: state.line = state.line &+ UInt32(truncatingIfNeeded: cursor.sleb())
      case 4: state.file = cursor.uleb()
      case 5: state.column = cursor.uleb()
      case 8: state.address &+= constantAdd
      case 9: state.address &+= UInt64(cursor.u16())
      case 6, 7, 10, 11: break
      case 12: _ = cursor.uleb()
      default: for _ in 0..<header.arguments(of: opcode) { _ = cursor.uleb() }
      }
    }
    self.rows = rows.trimmed
  }

  private func runExtended(
    _ cursor: inout ByteCursor,
    _ state: inout State,
    _ rows: inout [Row],
    _ builder: inout SequenceBuilder
  ) {
    let length = cursor.uleb()
    guard length > 0, let bytes = Int(exactly: length), bytes <= cursor.remaining else { return cursor.skip(length) }
    let before = cursor.remaining
    switch cursor.u8() {
    case 1:
      if let sequence = builder.finished(at: state.address, &rows, &largeDiscriminators) { sequences.append(sequence) }
      state = State()
    case 2: state.address = cursor.address(bytes: bytes - 1)
    case 4: state.discriminator = cursor.uleb()
    default: break
    }
    cursor.skip(bytes - (before - cursor.remaining))
  }

  @inline(__always) private func append(_ state: inout State, _ rows: inout [Row], _ builder: inout SequenceBuilder) {
    defer { state.discriminator = 0 }
    guard let offset = builder.offset(of: state.address, rows.count) else { return }
    let isLarge = state.discriminator >= UInt64(Self.isLarge)
    let row = Row(
      offset: offset,
      line: state.line,
      file: UInt32(clamping: state.file),
      column: UInt16(clamping: state.column),
      discriminator: isLarge ? Self.isLarge : UInt16(truncatingIfNeeded: state.discriminator)
    )
    // The last of several rows for one address is valid. Rows equal to the previous one are redundant.
    if rows.count > builder.first, let last = rows.last, !isLarge {
      if last.offset == offset {
        rows[rows.count - 1] = row
        return
      }
      if last.line == row.line, last.file == row.file, last.column == row.column,
        last.discriminator == row.discriminator, last.offset < offset
      {
        return
      }
    }
    if isLarge { largeDiscriminators[rows.count] = UInt32(clamping: state.discriminator) }
    if rows.count > builder.first, let last = rows.last, last.offset > offset { builder.isUnsorted = true }
    rows.append(row)
  }
}

private struct SequenceBuilder {
  var first = 0
  var isUnsorted = false
  private var start: UInt64?

  /// Returns the offset of `address` from the sequence's beginning; `nil` if `address` is before it or too distant.
  @inline(__always) mutating func offset(of address: UInt64, _ count: Int) -> UInt32? {
    guard let start else {
      start = address
      first = count
      return 0
    }
    return address >= start ? UInt32(exactly: address - start) : nil
  }

  /// Ends the sequence at `end` and returns it; `nil` if it is empty or the linker dropped its code. Sorts rows that
  /// are out of order, with their discriminators in `large`.
  mutating func finished(
    at end: UInt64,
    _ rows: inout [LineTable.Row],
    _ large: inout [Int: UInt32]
  ) -> LineTable.Sequence? {
    defer { self = SequenceBuilder(first: rows.count) }
    guard let start else { return nil }
    guard start != 0, start < end else {
      rows.removeLast(rows.count - first)
      return nil
    }
    if isUnsorted {
      // The last of several rows for one address is valid.
      let sorted = rows[first...].enumerated()
        .sorted {
          $0.element.offset != $1.element.offset ? $0.element.offset < $1.element.offset : $0.offset < $1.offset
        }
      let moved = sorted.map { large[first + $0.offset] }
      rows.replaceSubrange(first..., with: sorted.map(\.element))
      for (place, discriminator) in moved.enumerated() { large[first + place] = discriminator }
    }
    return LineTable.Sequence(range: AddressRange(start: start, end: end), first: first, count: rows.count - first)
  }
}

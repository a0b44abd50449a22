import CCulpritLinux
import CulpritStallRecord

struct FunctionTable {
  struct Scope {
    /// The range from the first address to one past the last. Has gaps if ``pieceCount`` is not 0.
    var bounds: AddressRange
    /// The offset of the entry from the unit's beginning.
    var entry: UInt32
    /// Index one past the last scope inside this scope.
    var next: UInt32
    var firstPiece: UInt32
    var pieceCount: UInt16
    var isFunction: Bool
    /// The call position of an inlined function.
    var callColumn: UInt16
    var callFile: UInt32
    var callLine: UInt32
  }

  private struct Function {
    var range: AddressRange
    var scope: UInt32
  }

  private var scopes: [Scope] = []
  private var pieces: [AddressRange] = []
  private var functions: [Function] = []
  /// The offsets of the unit's direct module entries from its beginning.
  private(set) var modules: [UInt32] = []
  private var highestEnds = HighestEnds()

  init(_ unit: DwarfUnit) {
    unit.file.renewRangeBudget()
    read(unit)
    scopes = scopes.trimmed
    pieces = pieces.trimmed
    functions = functions.trimmed
    functions.sort { $0.range.start != $1.range.start ? $0.range.start < $1.range.start : $0.scope < $1.scope }
    highestEnds = HighestEnds(functions.lazy.map(\.range))
  }

  var byteCount: Int {
    scopes.capacity * MemoryLayout<Scope>.stride + pieces.capacity * 16 + functions.capacity * 24
      + highestEnds.byteCount
  }

  var count: Int { scopes.count }

  subscript(number: Int) -> Scope { scopes[number] }

  func chain(at address: UInt64) -> [Int] {
    guard let function = function(at: address) else { return [] }
    var chain = [function]
    var place = function + 1
    var end = Int(scopes[function].next)
    while place < end {
      let scope = scopes[place]
      if !scope.isFunction, contains(scope, address) {
        chain.append(place)
        end = Int(scope.next)
        place += 1
      } else {
        place = Int(scope.next)
      }
    }
    return chain
  }

  private func function(at address: UInt64) -> Int? {
    let last = functions.partitioningIndex { $0.range.start > address } - 1
    let place = highestEnds.place(at: address, from: last) { functions[$0].range.end }
    return place.map { Int(functions[$0].scope) }
  }

  private func contains(_ scope: Scope, _ address: UInt64) -> Bool {
    guard scope.bounds.contains(address) else { return false }
    if scope.pieceCount == 0 { return true }
    for place in Int(scope.firstPiece)..<Int(scope.firstPiece) + Int(scope.pieceCount) {
      if pieces[place].contains(address) { return true }
    }
    return false
  }

  // MARK: Reading

  private mutating func read(_ unit: DwarfUnit) {
    let abbreviations = unit.abbreviations
    let encoding = unit.header.encoding
    let base = unit.file.info.bytes.base
    let start = base + unit.header.offset
    var cursor = unit.cursor(at: unit.header.firstEntry)
    var open: [(scope: Int, depth: Int)] = []
    var depth = 0
    var steps = 0
    abbreviations.specifications.withUnsafeBufferPointer { specifications in
      while !cursor.isAtEnd {
        steps &+= 1
        if steps & 0x3ff == 0 { clinux_fork_yield() }
        let entry = cursor.position - start
        let code = cursor.uleb()
        if code == 0 {
          depth -= 1
          if let last = open.last, last.depth > depth {
            scopes[last.scope].next = UInt32(truncatingIfNeeded: scopes.count)
            open.removeLast()
          }
          // The children of the last entry have ended. Padding follows.
          if depth <= 0 { break }
          continue
        }
        let abbreviation = abbreviations.abbreviation(code)
        // Entries after an unknown abbreviation cannot be interpreted.
        guard abbreviation.isDefined else { break }
        if abbreviation.tag == Tag.module, depth == 1 { modules.append(UInt32(truncatingIfNeeded: entry)) }
        // SAFETY: an abbreviation's attributes are in the table from which it was read.
        let attributes = UnsafeBufferPointer(
          rebasing: specifications[Int(abbreviation.first)..<Int(abbreviation.first) + Int(abbreviation.count)]
        )
        if abbreviation.isCode {
          let scope = readScope(unit, abbreviation, attributes, &cursor, entry)
          if abbreviation.hasChildren {
            depth += 1
            if let scope { open.append((scope, depth)) }
          }
          continue
        }
        if abbreviation.hasChildren, abbreviation.hasSibling, Self.hasNoCode(abbreviation.tag) {
          let value = AttributeValue(attributes[0].form, &cursor, encoding, base: base, implicit: 0)
          let target = unit.reference(value)?.offset ?? 0
          // Skips forward only: a backward reference could cause an endless loop.
          let distance = target - (cursor.position - base)
          if distance >= 0 {
            cursor.skip(distance)
            continue
          }
          for attribute in attributes.dropFirst() { AttributeValue.skip(attribute.form, &cursor, encoding) }
        } else if abbreviation.size >= 0 {
          cursor.skip(Int(abbreviation.size))
        } else {
          for attribute in attributes { AttributeValue.skip(attribute.form, &cursor, encoding) }
        }
        if abbreviation.hasChildren { depth += 1 }
      }
    }
    for last in open { scopes[last.scope].next = UInt32(truncatingIfNeeded: scopes.count) }
  }

  private static func hasNoCode(_ tag: UInt16) -> Bool {
    tag == Tag.enumerationType || tag == Tag.arrayType || tag == Tag.subroutineType
  }

  /// Reads a function or an inlined call. Returns the index in ``scopes``; `nil` without code.
  private mutating func readScope(
    _ unit: DwarfUnit,
    _ abbreviation: AbbreviationTable.Abbreviation,
    _ attributes: UnsafeBufferPointer<AbbreviationTable.Specification>,
    _ cursor: inout ByteCursor,
    _ entry: Int
  ) -> Int? {
    var low: AttributeValue?
    var high: AttributeValue?
    var list: AttributeValue?
    var (file, line, column): (UInt64, UInt64, UInt64) = (0, 0, 0)
    let encoding = unit.header.encoding
    let base = unit.file.info.bytes.base
    for attribute in attributes {
      switch attribute.name {
      case Attribute.lowPC, Attribute.highPC, Attribute.ranges, Attribute.callFile, Attribute.callLine,
        Attribute.callColumn:
        let constant =
          attribute.form == Form.implicitConstant ? unit.abbreviations.constants[Int(attribute.constant)] : 0
        let value = AttributeValue(attribute.form, &cursor, encoding, base: base, implicit: constant)
        switch attribute.name {
        case Attribute.lowPC: low = value
        case Attribute.highPC: high = value
        case Attribute.ranges: list = value
        case Attribute.callFile: file = value.number
        case Attribute.callLine: line = value.number
        default: column = value.number
        }
      default: AttributeValue.skip(attribute.form, &cursor, encoding)
      }
    }
    guard !cursor.hasFailed, list != nil || (low != nil && high != nil) else { return nil }
    let ranges = unit.ranges(low: low, high: high, list: list)
    guard let first = ranges.first, scopes.count < Int(UInt32.max) else { return nil }
    let isFunction = abbreviation.tag == Tag.subprogram
    var bounds = first
    for range in ranges.dropFirst() {
      bounds.start = min(bounds.start, range.start)
      bounds.end = max(bounds.end, range.end)
    }
    let place = scopes.count
    let kept = ranges.count == 1 || isFunction ? 0 : min(ranges.count, Int(UInt16.max))
    scopes.append(
      Scope(
        bounds: isFunction ? first : bounds,
        entry: UInt32(truncatingIfNeeded: entry),
        next: UInt32(truncatingIfNeeded: place + 1),
        firstPiece: UInt32(truncatingIfNeeded: pieces.count),
        pieceCount: UInt16(kept),
        isFunction: isFunction,
        callColumn: UInt16(clamping: column),
        callFile: UInt32(clamping: file),
        callLine: UInt32(clamping: line)
      )
    )
    if kept > 0 { pieces += ranges.prefix(kept) }
    if isFunction {
      for range in ranges { functions.append(Function(range: range, scope: UInt32(truncatingIfNeeded: place))) }
    }
    return place
  }
}

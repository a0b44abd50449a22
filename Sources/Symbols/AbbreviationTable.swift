/// The abbreviations of a unit: the layouts of its debugging entries (DWARF 5, 7.5.3).
///
/// A table depends on the encoding of the unit, which determines the fixed sizes of entries.
final class AbbreviationTable {
  struct Specification {
    var name: UInt16
    var form: UInt16
    /// The index of the form's implicit constant in ``constants``.
    var constant: UInt32
  }

  struct Abbreviation {
    var tag: UInt16
    var hasChildren: Bool
    var hasSibling: Bool
    var first: UInt32
    var count: UInt32
    /// The size of all values, in bytes; -1 if it varies.
    var size: Int32
    var isCode: Bool
    var isDefined: Bool

    static let undefined = Abbreviation(
      tag: 0,
      hasChildren: false,
      hasSibling: false,
      first: 0,
      count: 0,
      size: -1,
      isCode: false,
      isDefined: false
    )
  }

  /// Producers number codes from 1. A dictionary stores codes from this number on.
  private static let denseMax = 4096

  let specifications: [Specification]
  let constants: [Int64]
  private let dense: [Abbreviation]
  private let sparse: [UInt64: Abbreviation]
  let byteCount: Int
  var memory: Int { specifications.capacity * 8 + constants.capacity * 8 + dense.capacity * 24 + sparse.capacity * 40 }

  init(_ section: Bytes, at offset: Int, _ encoding: UnitEncoding) {
    var cursor = section.cursor(at: offset)
    var reader = AbbreviationReader(encoding: encoding)
    var dense = [Abbreviation.undefined]
    var sparse: [UInt64: Abbreviation] = [:]
    reader.specifications.reserveCapacity(256)
    dense.reserveCapacity(64)
    while !cursor.isAtEnd {
      let code = cursor.uleb()
      guard code != 0 else { break }
      guard let abbreviation = reader.read(&cursor) else { break }
      if code == UInt64(dense.count), dense.count < Self.denseMax {
        dense.append(abbreviation)
      } else if sparse[code] == nil, code >= UInt64(dense.count) {
        sparse[code] = abbreviation
      }
    }
    byteCount = max(0, section.count - offset - cursor.remaining)
    // There can be thousands of units, so unused capacity is removed from their tables.
    specifications = reader.specifications.trimmed
    constants = reader.constants.trimmed
    self.dense = dense.trimmed
    self.sparse = sparse
  }

  @inline(__always) func abbreviation(_ code: UInt64) -> Abbreviation {
    if code < UInt64(dense.count) { return dense[Int(code)] }
    return sparse[code] ?? .undefined
  }
}

private struct AbbreviationReader {
  let encoding: UnitEncoding
  var specifications: [AbbreviationTable.Specification] = []
  var constants: [Int64] = []

  mutating func read(_ cursor: inout ByteCursor) -> AbbreviationTable.Abbreviation? {
    let tag = UInt16(truncatingIfNeeded: cursor.uleb())
    let hasChildren = cursor.u8() != 0
    let first = specifications.count
    var size = 0
    while true {
      let name = cursor.uleb()
      let form = cursor.uleb()
      var constant: UInt32 = 0
      if form == UInt64(Form.implicitConstant) {
        constant = UInt32(truncatingIfNeeded: constants.count)
        constants.append(cursor.sleb())
      }
      if cursor.hasFailed { return nil }
      if name == 0, form == 0 { break }
      // A form that exceeds 16 bits is invalid. It becomes 0, an invalid form that ends the reading of the entry.
      let known = UInt16(exactly: form) ?? 0
      specifications.append(
        AbbreviationTable.Specification(name: UInt16(exactly: name) ?? 0, form: known, constant: constant)
      )
      if size >= 0, let fixed = AttributeValue.fixedSize(known, encoding) { size += fixed } else { size = -1 }
    }
    let count = specifications.count - first
    return AbbreviationTable.Abbreviation(
      tag: tag,
      hasChildren: hasChildren,
      hasSibling: count > 0 && specifications[first].name == Attribute.sibling,
      first: UInt32(truncatingIfNeeded: first),
      count: UInt32(truncatingIfNeeded: count),
      size: Int32(truncatingIfNeeded: size),
      isCode: tag == Tag.subprogram || tag == Tag.inlinedSubroutine,
      isDefined: true
    )
  }
}

/// The shapes of a unit's debugging entries (DWARF 5, 7.5.3).
///
/// Shapes are kept for one encoding, because whether the size of an entry is fixed depends on it.
final class Abbreviations {
  /// One attribute of a shape.
  struct Specification {
    var name: UInt16
    var form: UInt16
    /// The place in ``Abbreviations/constants`` of the value of an implicit constant.
    var constant: UInt32
  }

  /// The shape of an entry.
  struct Shape {
    var tag: UInt16
    var hasChildren: Bool
    /// Whether the attribute that leads past the children comes first.
    var hasSibling: Bool
    /// Where the attributes are in ``Abbreviations/specifications``.
    var first: UInt32
    var count: UInt32
    /// How many bytes an entry of this shape has after its code, −1 when it depends on the entry.
    var size: Int32
    /// Whether the entry may be code: a function or an inlined call.
    var isCode: Bool
    /// Whether the shape was defined at all.
    var isDefined: Bool

    static let undefined = Shape(
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

  /// Codes are numbered from 1 by every producer; higher ones than these go to a dictionary.
  private static let denseMax = 4096

  let specifications: [Specification]
  let constants: [Int64]
  private let dense: [Shape]
  private let sparse: [UInt64: Shape]
  /// How many bytes of the section were read.
  let byteCount: Int
  /// How much memory the shapes take, about.
  var memory: Int { specifications.capacity * 8 + constants.capacity * 8 + dense.capacity * 24 + sparse.capacity * 40 }

  /// Reads the shapes at `offset` of `section`; as many as are whole.
  init(_ section: Bytes, at offset: Int, _ encoding: UnitEncoding) {
    var cursor = section.cursor(at: offset)
    var reader = ShapeReader(encoding: encoding)
    var dense = [Shape.undefined]
    var sparse: [UInt64: Shape] = [:]
    reader.specifications.reserveCapacity(256)
    dense.reserveCapacity(64)
    while !cursor.isAtEnd {
      let code = cursor.uleb()
      guard code != 0 else { break }
      guard let shape = reader.read(&cursor) else { break }
      if code == UInt64(dense.count), dense.count < Self.denseMax {
        dense.append(shape)
      } else if sparse[code] == nil, code >= UInt64(dense.count) {
        sparse[code] = shape
      }
    }
    byteCount = max(0, section.count - offset - cursor.remaining)
    // There is a table for each unit, and thousands of units: none takes more than it needs.
    specifications = reader.specifications.trimmed
    constants = reader.constants.trimmed
    self.dense = dense.trimmed
    self.sparse = sparse
  }

  /// The shape with the number `code`.
  @inline(__always) func shape(_ code: UInt64) -> Shape {
    if code < UInt64(dense.count) { return dense[Int(code)] }
    return sparse[code] ?? .undefined
  }

}

/// Reads the shapes of a table one after the other.
private struct ShapeReader {
  let encoding: UnitEncoding
  var specifications: [Abbreviations.Specification] = []
  var constants: [Int64] = []

  mutating func read(_ cursor: inout ByteCursor) -> Abbreviations.Shape? {
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
      // A form past 16 bits is none; 0 is not one either, and ends the reading of the entry.
      let known = UInt16(exactly: form) ?? 0
      specifications.append(
        Abbreviations.Specification(name: UInt16(exactly: name) ?? 0, form: known, constant: constant)
      )
      if size >= 0, let fixed = AttributeValue.fixedSize(known, encoding) { size += fixed } else { size = -1 }
    }
    let count = specifications.count - first
    return Abbreviations.Shape(
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

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

  private(set) var specifications: [Specification] = []
  private(set) var constants: [Int64] = []
  private var dense: [Shape] = []
  private var sparse: [UInt64: Shape] = [:]
  /// How many bytes of the section were read.
  private(set) var byteCount = 0

  /// Reads the shapes at `offset` of `section`; as many as are whole.
  init(_ section: Bytes, at offset: Int, _ encoding: UnitEncoding) {
    var cursor = section.cursor(at: offset)
    specifications.reserveCapacity(256)
    dense.reserveCapacity(64)
    dense.append(.undefined)
    while !cursor.isAtEnd {
      let code = cursor.uleb()
      guard code != 0 else { break }
      guard let shape = readShape(&cursor, encoding) else { break }
      if code == UInt64(dense.count), dense.count < Self.denseMax {
        dense.append(shape)
      } else if sparse[code] == nil, code >= UInt64(dense.count) {
        sparse[code] = shape
      }
    }
    byteCount = max(0, section.count - offset - cursor.remaining)
  }

  /// The shape with the number `code`.
  @inline(__always) func shape(_ code: UInt64) -> Shape {
    if code < UInt64(dense.count) { return dense[Int(code)] }
    return sparse[code] ?? .undefined
  }

  private func readShape(_ cursor: inout ByteCursor, _ encoding: UnitEncoding) -> Shape? {
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
        Specification(name: UInt16(exactly: name) ?? 0, form: known, constant: constant)
      )
      if size >= 0, let fixed = AttributeValue.fixedSize(known, encoding) { size += fixed } else { size = -1 }
    }
    let count = specifications.count - first
    return Shape(
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

struct UnitEncoding {
  var version: UInt16
  var addressBytes: UInt8
  /// Whether offsets have 8 bytes instead of 4.
  var isWide: Bool

  var offsetBytes: Int { isWide ? 8 : 4 }
}

struct AttributeValue {
  /// The encoding of the value, a number of ``Form``.
  var form: UInt16
  /// The number, offset, index or length. For text inside the entry, its offset in the section.
  var number: UInt64

  /// Reads the value at `cursor`. `base` is the start of the section in memory, `implicit` the abbreviation's implicit
  /// constant.
  @inline(__always) init(
    _ form: UInt16,
    _ cursor: inout ByteCursor,
    _ encoding: UnitEncoding,
    base: UnsafeRawPointer,
    implicit: Int64
  ) {
    self.form = form
    number = Self.read(form, &cursor, encoding, base, implicit, &self.form)
  }

  private static func read(
    _ form: UInt16,
    _ cursor: inout ByteCursor,
    _ encoding: UnitEncoding,
    _ base: UnsafeRawPointer,
    _ implicit: Int64,
    _ actual: inout UInt16
  ) -> UInt64 {
    switch form {
    case Form.data1, Form.reference1, Form.flag, Form.stringIndex1, Form.addressIndex1: return UInt64(cursor.u8())
    case Form.data2, Form.reference2, Form.stringIndex2, Form.addressIndex2: return UInt64(cursor.u16())
    case Form.data4, Form.reference4, Form.stringIndex4, Form.addressIndex4, Form.referenceSupplementary4:
      return UInt64(cursor.u32())
    case Form.data8, Form.reference8, Form.referenceSignature, Form.referenceSupplementary8: return cursor.u64()
    case Form.stringIndex3, Form.addressIndex3: return cursor.u24()
    case Form.address: return cursor.address(bytes: Int(encoding.addressBytes))
    case Form.stringPointer, Form.sectionOffset, Form.lineStringPointer, Form.stringPointerSupplementary,
      Form.gnuReferenceAlternate, Form.gnuStringAlternate:
      return cursor.offset(isWide: encoding.isWide)
    case Form.unsignedData, Form.referenceUnsigned, Form.stringIndex, Form.addressIndex, Form.locationListIndex,
      Form.rangeListIndex, Form.gnuAddressIndex, Form.gnuStringIndex:
      return cursor.uleb()
    case Form.signedData: return UInt64(bitPattern: cursor.sleb())
    case Form.implicitConstant: return UInt64(bitPattern: implicit)
    case Form.flagPresent: return 1
    case Form.referenceAddress:
      // In DWARF 2, such references have the size of an address (DWARF 2.0.0, 7.5.4).
      return encoding.version == 2
        ? cursor.number(bytes: Int(encoding.addressBytes)) : cursor.offset(isWide: encoding.isWide)
    case Form.string:
      let start = cursor.position - base
      cursor.skipText()
      return UInt64(start)
    case Form.indirect:
      let inner = UInt16(truncatingIfNeeded: cursor.uleb())
      // An indirect form must not lead to another indirect form, or to an implicit constant.
      guard inner != Form.indirect, inner != Form.implicitConstant else {
        cursor.skip(Int.max)
        return 0
      }
      actual = inner
      return read(inner, &cursor, encoding, base, 0, &actual)
    default:
      Self.skipBlock(form, &cursor)
      return 0
    }
  }

  @inline(__always) static func skip(_ form: UInt16, _ cursor: inout ByteCursor, _ encoding: UnitEncoding) {
    if let size = fixedSize(form, encoding) { cursor.skip(size) } else { skipVariable(form, &cursor, encoding) }
  }

  private static func skipVariable(_ form: UInt16, _ cursor: inout ByteCursor, _ encoding: UnitEncoding) {
    switch form {
    case Form.unsignedData, Form.referenceUnsigned, Form.stringIndex, Form.addressIndex, Form.locationListIndex,
      Form.rangeListIndex, Form.gnuAddressIndex, Form.gnuStringIndex, Form.signedData:
      _ = cursor.uleb()
    case Form.string: cursor.skipText()
    case Form.indirect:
      let inner = UInt16(truncatingIfNeeded: cursor.uleb())
      guard inner != Form.indirect, inner != Form.implicitConstant else { return cursor.skip(Int.max) }
      skip(inner, &cursor, encoding)
    default: skipBlock(form, &cursor)
    }
  }

  /// An unknown form has an unknown length, so it ends all reading.
  private static func skipBlock(_ form: UInt16, _ cursor: inout ByteCursor) {
    switch form {
    case Form.expression, Form.block: cursor.skip(cursor.uleb())
    case Form.block1: cursor.skip(Int(cursor.u8()))
    case Form.block2: cursor.skip(Int(cursor.u16()))
    case Form.block4: cursor.skip(Int(cursor.u32()))
    case Form.data16: cursor.skip(16)
    default: cursor.skip(Int.max)
    }
  }

  @inline(__always) static func fixedSize(_ form: UInt16, _ encoding: UnitEncoding) -> Int? {
    switch form {
    case Form.flagPresent, Form.implicitConstant: return 0
    case Form.data1, Form.reference1, Form.flag, Form.stringIndex1, Form.addressIndex1: return 1
    case Form.data2, Form.reference2, Form.stringIndex2, Form.addressIndex2: return 2
    case Form.stringIndex3, Form.addressIndex3: return 3
    case Form.data4, Form.reference4, Form.stringIndex4, Form.addressIndex4, Form.referenceSupplementary4: return 4
    case Form.data8, Form.reference8, Form.referenceSignature, Form.referenceSupplementary8: return 8
    case Form.data16: return 16
    case Form.address: return Int(encoding.addressBytes)
    case Form.stringPointer, Form.sectionOffset, Form.lineStringPointer, Form.stringPointerSupplementary,
      Form.gnuReferenceAlternate, Form.gnuStringAlternate:
      return encoding.offsetBytes
    case Form.referenceAddress: return encoding.version == 2 ? Int(encoding.addressBytes) : encoding.offsetBytes
    default: return nil
    }
  }
}

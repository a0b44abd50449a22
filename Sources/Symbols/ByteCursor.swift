import Glibc

/// Bytes of a file as they lie in memory. Whoever hands them out keeps them there.
struct Bytes {
  let base: UnsafeRawPointer
  let count: Int
  /// Whether numbers in them begin with their highest byte.
  var isBigEndian = false

  /// No bytes at all.
  static var none: Bytes {
    // SAFETY: the address is not zero, and nothing is ever read there.
    Bytes(base: UnsafeRawPointer(bitPattern: 8).unsafelyUnwrapped, count: 0)
  }

  /// The part of `size` bytes from `offset` on, or `nil` when it does not lie inside.
  func part(_ offset: UInt64, _ size: UInt64) -> Bytes? {
    guard let offset = Int(exactly: offset), let size = Int(exactly: size), offset <= count, size <= count - offset
    else { return nil }
    return Bytes(base: base + offset, count: size, isBigEndian: isBigEndian)
  }

  /// The part from `offset` on; none when that is past the end.
  func from(_ offset: Int) -> Bytes {
    guard offset >= 0, offset <= count else { return .none }
    return Bytes(base: base + offset, count: count - offset, isBigEndian: isBigEndian)
  }

  /// A cursor at `offset`; one that has failed already when that is not inside.
  @inline(__always) func cursor(at offset: Int = 0, end: Int? = nil) -> ByteCursor {
    let last = min(end ?? count, count)
    guard offset >= 0, offset <= last else { return ByteCursor(base, count: 0, hasFailed: true) }
    return ByteCursor(base + offset, count: last - offset, isBigEndian: isBigEndian)
  }

  /// The text that begins at `offset` and ends with a NUL; `nil` when there is no NUL.
  func text(at offset: Int) -> TextReference? {
    guard offset >= 0, offset < count else { return nil }
    // SAFETY: memchr looks at the bytes from `offset` to the end, which are all inside.
    guard let end = memchr(base + offset, 0, count - offset) else { return nil }
    return TextReference(base: base + offset, count: UnsafeRawPointer(end) - (base + offset))
  }

  /// The same bytes with numbers in the order that `isBigEndian` states.
  func ordered(isBigEndian: Bool) -> Bytes { Bytes(base: base, count: count, isBigEndian: isBigEndian) }

  /// A copy.
  var array: [UInt8] { Array(UnsafeRawBufferPointer(start: base, count: count)) }
}

/// Text inside a file, not copied: valid only as long as the file is open.
package struct TextReference: Equatable {
  /// Where the text is.
  package let base: UnsafeRawPointer
  /// How many bytes it has.
  package let count: Int

  init(base: UnsafeRawPointer, count: Int) {
    self.base = base
    self.count = count
  }

  /// The bytes of the text.
  package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

  /// A copy; what is not UTF-8 is repaired.
  package var string: String {
    // SAFETY: `Bytes.text(at:)` has found the end of the text inside its section.
    String(decoding: bytes, as: UTF8.self)
  }

  /// Whether both are the same text.
  package static func == (left: TextReference, right: TextReference) -> Bool {
    // SAFETY: both have `count` bytes.
    left.count == right.count && memcmp(left.base, right.base, left.count) == 0
  }

  /// Whether the text is `other`.
  func equals(_ other: StaticString) -> Bool {
    // SAFETY: both have `count` bytes.
    count == other.utf8CodeUnitCount && memcmp(base, other.utf8Start, count) == 0
  }
}

/// Reads numbers one after the other. Whatever would pass the end gives 0 and sets ``hasFailed``, so that a loop needs to
/// look only once.
struct ByteCursor {
  /// Where the next number is.
  private(set) var position: UnsafeRawPointer
  private let end: UnsafeRawPointer
  /// Whether something would have passed the end.
  private(set) var hasFailed: Bool
  private let isBigEndian: Bool

  init(_ base: UnsafeRawPointer, count: Int, isBigEndian: Bool = false, hasFailed: Bool = false) {
    position = base
    end = base + count
    self.isBigEndian = isBigEndian
    self.hasFailed = hasFailed
  }

  /// How many bytes are left.
  var remaining: Int { end - position }

  /// Whether nothing can be read any more.
  var isAtEnd: Bool { position >= end || hasFailed }

  @inline(__always) private mutating func load<Number: FixedWidthInteger>(_: Number.Type) -> Number {
    let width = MemoryLayout<Number>.size
    guard end - position >= width else {
      hasFailed = true
      position = end
      return 0
    }
    // SAFETY: `width` bytes are left.
    let number = position.loadUnaligned(as: Number.self)
    position += width
    return isBigEndian ? Number(bigEndian: number) : Number(littleEndian: number)
  }

  @inline(__always) mutating func u8() -> UInt8 { load(UInt8.self) }
  @inline(__always) mutating func i8() -> Int8 { load(Int8.self) }
  @inline(__always) mutating func u16() -> UInt16 { load(UInt16.self) }
  @inline(__always) mutating func u32() -> UInt32 { load(UInt32.self) }
  @inline(__always) mutating func u64() -> UInt64 { load(UInt64.self) }

  /// Three bytes.
  mutating func u24() -> UInt64 {
    let (first, second, third) = (UInt64(u8()), UInt64(u8()), UInt64(u8()))
    return second << 8 | (isBigEndian ? first << 16 | third : third << 16 | first)
  }

  /// An offset or length: eight bytes in the 64-bit format of DWARF and in ELF files of 64 bits, else four.
  @inline(__always) mutating func offset(isWide: Bool) -> UInt64 { isWide ? u64() : UInt64(u32()) }

  /// A number in so many bytes; the cursor fails for a width that there is not.
  mutating func number(bytes: Int) -> UInt64 {
    switch bytes {
    case 1: return UInt64(u8())
    case 2: return UInt64(u16())
    case 4: return UInt64(u32())
    case 8: return u64()
    default:
      hasFailed = true
      position = end
      return 0
    }
  }

  /// An address in so many bytes. The highest one stands for code that the linker dropped, whatever its width: what is
  /// added to it passes the end of 64 bits.
  @inline(__always) mutating func address(bytes: Int) -> UInt64 {
    let address = number(bytes: bytes)
    return bytes == 4 && address == UInt64(UInt32.max) ? .max : address
  }

  /// An unsigned number in LEB128 (DWARF 5, 7.6). Bits past the 64th are dropped.
  @inline(__always) mutating func uleb() -> UInt64 {
    if position < end {
      // SAFETY: a byte is left.
      let first = position.load(as: UInt8.self)
      if first < 0x80 {
        position += 1
        return UInt64(first)
      }
    }
    return longULEB()
  }

  private mutating func longULEB() -> UInt64 {
    var value: UInt64 = 0
    var shift: UInt64 = 0
    while true {
      let byte = u8()
      if hasFailed { return 0 }
      if shift < 64 { value |= UInt64(byte & 0x7f) << shift }
      shift += 7
      if byte < 0x80 { return value }
    }
  }

  /// A signed number in LEB128.
  @inline(__always) mutating func sleb() -> Int64 {
    var value: UInt64 = 0
    var shift: UInt64 = 0
    while true {
      let byte = u8()
      if hasFailed { return 0 }
      if shift < 64 { value |= UInt64(byte & 0x7f) << shift }
      shift += 7
      if byte < 0x80 {
        if shift < 64, byte & 0x40 != 0 { value |= ~0 << shift }
        return Int64(bitPattern: value)
      }
    }
  }

  /// Passes over `count` bytes.
  @inline(__always) mutating func skip(_ count: Int) {
    guard count >= 0, count <= end - position else {
      hasFailed = true
      position = end
      return
    }
    position += count
  }

  /// Passes over as many bytes as `count` says, which may be more than there are.
  @inline(__always) mutating func skip(_ count: UInt64) { skip(Int(exactly: count) ?? .max) }

  /// Passes over text and the NUL at its end.
  mutating func skipText() { _ = text() }

  /// The text up to the next NUL.
  mutating func text() -> TextReference? {
    // SAFETY: memchr looks at the bytes that are left.
    guard position < end, let found = memchr(position, 0, end - position) else {
      hasFailed = true
      position = end
      return nil
    }
    let text = TextReference(base: position, count: UnsafeRawPointer(found) - position)
    position = UnsafeRawPointer(found) + 1
    return text
  }
}

extension Array {
  /// The same elements in memory that is not larger than they need.
  var trimmed: [Element] { capacity > count + count / 8 + 2 ? withUnsafeBufferPointer { Array($0) } : self }
}

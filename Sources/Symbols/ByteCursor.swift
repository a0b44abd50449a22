import Glibc

/// The bytes of a file in memory. The provider keeps them valid.
struct Bytes {
  let base: UnsafeRawPointer
  let count: Int
  var isBigEndian = false

  static var none: Bytes {
    // SAFETY: the address is not zero, and the count of 0 prevents all reads.
    Bytes(base: UnsafeRawPointer(bitPattern: 8).unsafelyUnwrapped, count: 0)
  }

  func part(_ offset: UInt64, _ size: UInt64) -> Bytes? {
    guard let offset = Int(exactly: offset), let size = Int(exactly: size), offset <= count, size <= count - offset
    else { return nil }
    return Bytes(base: base + offset, count: size, isBigEndian: isBigEndian)
  }

  func from(_ offset: Int) -> Bytes {
    guard offset >= 0, offset <= count else { return .none }
    return Bytes(base: base + offset, count: count - offset, isBigEndian: isBigEndian)
  }

  @inline(__always) func cursor(at offset: Int = 0, end: Int? = nil) -> ByteCursor {
    let last = min(end ?? count, count)
    guard offset >= 0, offset <= last else { return ByteCursor(base, count: 0, hasFailed: true) }
    return ByteCursor(base + offset, count: last - offset, isBigEndian: isBigEndian)
  }

  func text(at offset: Int) -> TextReference? {
    guard offset >= 0, offset < count else { return nil }
    // SAFETY: memchr reads the bytes from `offset` to the end, which are all inside.
    guard let end = memchr(base + offset, 0, count - offset) else { return nil }
    return TextReference(base: base + offset, count: UnsafeRawPointer(end) - (base + offset))
  }

  func ordered(isBigEndian: Bool) -> Bytes { Bytes(base: base, count: count, isBigEndian: isBigEndian) }

  var array: [UInt8] { Array(UnsafeRawBufferPointer(start: base, count: count)) }
}

package struct TextReference: Equatable {
  package let base: UnsafeRawPointer
  package let count: Int

  init(base: UnsafeRawPointer, count: Int) {
    self.base = base
    self.count = count
  }

  package var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: base, count: count) }

  package var string: String {
    // SAFETY: `Bytes.text(at:)` found the end of the text inside its section.
    String(decoding: bytes, as: UTF8.self)
  }

  package static func == (left: TextReference, right: TextReference) -> Bool {
    // SAFETY: both have `count` bytes.
    left.count == right.count && memcmp(left.base, right.base, left.count) == 0
  }

  func equals(_ other: StaticString) -> Bool {
    // SAFETY: both have `count` bytes.
    count == other.utf8CodeUnitCount && memcmp(base, other.utf8Start, count) == 0
  }
}

/// Reads numbers in sequence. Reading past the end returns 0 and sets ``hasFailed``, so a loop needs only one check.
struct ByteCursor {
  private(set) var position: UnsafeRawPointer
  private let end: UnsafeRawPointer
  private(set) var hasFailed: Bool
  private let isBigEndian: Bool

  init(_ base: UnsafeRawPointer, count: Int, isBigEndian: Bool = false, hasFailed: Bool = false) {
    position = base
    end = base + count
    self.isBigEndian = isBigEndian
    self.hasFailed = hasFailed
  }

  var remaining: Int { end - position }

  var isAtEnd: Bool { position >= end || hasFailed }

  /// Moves past `count` bytes. Returns their address; `nil` if fewer are left.
  @inline(__always) private mutating func take(_ count: Int) -> UnsafeRawPointer? {
    guard end - position >= count else {
      hasFailed = true
      position = end
      return nil
    }
    defer { position += count }
    return position
  }

  // SAFETY: `take` returns the address of as many bytes as the number has. A generic function would be slow in debug
  // builds.
  @inline(__always) mutating func u8() -> UInt8 { take(1)?.load(as: UInt8.self) ?? 0 }

  @inline(__always) mutating func i8() -> Int8 { Int8(bitPattern: u8()) }

  @inline(__always) mutating func u16() -> UInt16 {
    let number = take(2)?.loadUnaligned(as: UInt16.self) ?? 0
    return isBigEndian ? number.byteSwapped : number
  }

  @inline(__always) mutating func u32() -> UInt32 {
    let number = take(4)?.loadUnaligned(as: UInt32.self) ?? 0
    return isBigEndian ? number.byteSwapped : number
  }

  @inline(__always) mutating func u64() -> UInt64 {
    let number = take(8)?.loadUnaligned(as: UInt64.self) ?? 0
    return isBigEndian ? number.byteSwapped : number
  }

  mutating func u24() -> UInt64 {
    let (first, second, third) = (UInt64(u8()), UInt64(u8()), UInt64(u8()))
    return second << 8 | (isBigEndian ? first << 16 | third : third << 16 | first)
  }

  /// Reads an offset or length: eight bytes in DWARF's 64-bit format and in 64-bit ELF files, otherwise four.
  @inline(__always) mutating func offset(isWide: Bool) -> UInt64 { isWide ? u64() : UInt64(u32()) }

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

  /// Reads an address of `bytes` bytes. The highest 32-bit address marks code that the linker dropped. It becomes
  /// `UInt64.max`, so adding a length overflows.
  @inline(__always) mutating func address(bytes: Int) -> UInt64 {
    let address = number(bytes: bytes)
    return bytes == 4 && address == UInt64(UInt32.max) ? .max : address
  }

  /// Reads an unsigned LEB128 number (DWARF 5, 7.6).
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

  @inline(__always) mutating func skip(_ count: Int) {
    guard count >= 0, count <= end - position else {
      hasFailed = true
      position = end
      return
    }
    position += count
  }

  @inline(__always) mutating func skip(_ count: UInt64) { skip(Int(exactly: count) ?? .max) }

  mutating func skipText() { _ = text() }

  mutating func text() -> TextReference? {
    // SAFETY: memchr reads only the remaining bytes.
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
  var trimmed: [Element] { capacity > count + count / 8 + 2 ? withUnsafeBufferPointer { Array($0) } : self }
}

/// A text buffer that uses neither the allocator nor locks after its creation. Text that does not fit is dropped.
struct PlainText: ~Copyable {
  private let bytes: UnsafeMutablePointer<CChar>
  private let capacity: Int
  private(set) var count = 0

  init(capacity: Int) {
    bytes = .allocate(capacity: capacity)
    self.capacity = capacity
  }

  deinit {
    // SAFETY: allocated by this value's initializer, and not shared.
    bytes.deallocate()
  }

  var start: UnsafePointer<CChar> { @_noLocks get { UnsafePointer(bytes) } }

  @_noLocks mutating func clear() { count = 0 }

  @_noLocks mutating func append(_ byte: CChar) {
    guard count < capacity else { return }
    // SAFETY: `count` is below the capacity.
    bytes[count] = byte
    count &+= 1
  }

  @_noLocks mutating func append(_ text: UnsafePointer<CChar>, _ length: Int) {
    var index = 0
    while index < length {
      // SAFETY: the caller guarantees `length` bytes.
      append(text[index])
      index &+= 1
    }
  }

  @_noLocks mutating func append(_ text: StaticString) {
    var index = 0
    while index < text.utf8CodeUnitCount {
      // SAFETY: a static string of more than one character has a pointer; the index is below its length.
      append(CChar(bitPattern: text.utf8Start[index]))
      index &+= 1
    }
  }

  /// Replaces bytes from `start` on with question marks if they are not UTF-8 or control a terminal.
  @_noLocks mutating func makePrintable(from start: Int) {
    var index = start
    while index < count {
      var length = 1
      let scalar = decode(at: index, &length)
      if !Self.isHarmless(scalar) {
        var place = index
        while place < index &+ length {
          // SAFETY: `decode` counts only bytes within the text.
          bytes[place] = 63
          place &+= 1
        }
      }
      index &+= length
    }
  }

  /// Returns the character at `index` and its length in bytes. An invalid byte gives 0 and length 1 (RFC 3629).
  @_noLocks private func decode(at index: Int, _ length: inout Int) -> UInt32 {
    length = 1
    // SAFETY: `index` and all other accessed indexes are below `count`.
    let first = UInt8(bitPattern: bytes[index])
    if first < 0x80 { return UInt32(first) }
    let wanted = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2
    guard first >= 0xC2, first <= 0xF4, index &+ wanted <= count else { return 0 }
    var scalar = UInt32(first) & (wanted == 4 ? 0x07 : wanted == 3 ? 0x0F : 0x1F)
    var place = 1
    while place < wanted {
      let next = UInt8(bitPattern: bytes[index &+ place])
      guard next & 0xC0 == 0x80 else { return 0 }
      scalar = scalar << 6 | UInt32(next & 0x3F)
      place &+= 1
    }
    let least: UInt32 = wanted == 4 ? 0x10000 : wanted == 3 ? 0x800 : 0x80
    guard scalar >= least, scalar <= 0x10FFFF, scalar < 0xD800 || scalar > 0xDFFF else { return 0 }
    length = wanted
    return scalar
  }

  /// Whether `scalar` is in none of the general categories Cc, Cf, Zl and Zp of Unicode 16.
  @_noLocks static func isHarmless(_ scalar: UInt32) -> Bool {
    switch scalar {
    case 0..<0x20, 0x7F..<0xA0, 0xAD, 0x600...0x605, 0x61C, 0x6DD, 0x70F, 0x890...0x891, 0x8E2, 0x180E: false
    case 0x200B...0x200F, 0x2028...0x202E, 0x2060...0x2064, 0x2066...0x206F, 0xFEFF, 0xFFF9...0xFFFB: false
    case 0x110BD, 0x110CD, 0x13430...0x1343F, 0x1BCA0...0x1BCA3, 0x1D173...0x1D17A, 0xE0001, 0xE0020...0xE007F: false
    default: true
    }
  }

  @_noLocks mutating func append(number: UInt64) {
    var divisor: UInt64 = 1
    while number / divisor >= 10 { divisor &*= 10 }
    while divisor > 0 {
      append(CChar(48 &+ Int8(truncatingIfNeeded: number / divisor % 10)))
      divisor /= 10
    }
  }

  @_noLocks mutating func append(seconds nanoseconds: UInt64, digits: Int = 1) {
    var unit: UInt64 = 1_000_000_000
    var index = 0
    while index < digits {
      unit /= 10
      index &+= 1
    }
    let rounded = nanoseconds / unit &+ (nanoseconds % unit >= unit / 2 ? 1 : 0)
    let whole = 1_000_000_000 / unit
    append(number: rounded / whole)
    if digits > 0 {
      append(46)
      var place = whole / 10
      while place > 0 {
        append(CChar(48 &+ Int8(truncatingIfNeeded: rounded / place % 10)))
        place /= 10
      }
    }
  }
}

func plainTextCodeAnchor() -> CodeAnchor { { 6 } }

import CObserver

/// A text in memory of its own, put together without the allocator and without locks. What does not fit is left out.
struct PlainText: ~Copyable {
  private let bytes: UnsafeMutablePointer<CChar>
  private let capacity: Int
  private(set) var count = 0

  /// A text of at most `capacity` bytes. Allocates.
  init(capacity: Int) {
    bytes = .allocate(capacity: capacity)
    self.capacity = capacity
  }

  deinit {
    // SAFETY: allocated by the initializer, and nobody else has it.
    bytes.deallocate()
  }

  /// Its bytes, `count` of them.
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
      // SAFETY: the caller's `length` bytes.
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

  @_noLocks mutating func append(number: UInt64) {
    var divisor: UInt64 = 1
    while number / divisor >= 10 { divisor &*= 10 }
    while divisor > 0 {
      append(CChar(48 &+ Int8(truncatingIfNeeded: number / divisor % 10)))
      divisor /= 10
    }
  }

  /// Appends `nanoseconds` as seconds, with so many digits after the point.
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

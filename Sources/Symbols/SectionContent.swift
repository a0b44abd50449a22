import CCulpritLinux
import CCulpritZlib
import Glibc

/// The content of a section. Compressed sections are inflated on demand.
final class SectionContent {
  /// Only bytes before ``ready`` are readable.
  let bytes: Bytes
  private(set) var ready: Int
  private var inflation: Inflation?
  private let region: UnsafeMutableRawPointer?

  static var empty: SectionContent { SectionContent(.none) }

  init(_ bytes: Bytes) {
    self.bytes = bytes
    ready = bytes.count
    region = nil
  }

  /// Inflates the stream `compressed` (RFC 1950) on demand, up to its claimed `size` in bytes.
  ///
  /// - Throws: ``ElfError`` for impossible sizes.
  init(inflating compressed: Bytes, to size: UInt64, of file: MappedFile?) throws(ElfError) {
    guard let count = Int(exactly: size), count > 0 else {
      throw ElfError(text: "a compressed section has \(size) bytes")
    }
    // Debug information shrinks to a third or a tenth. A much larger claimed size would exhaust memory.
    guard (count - (1 << 20)) >> 6 <= compressed.count else {
      throw ElfError(text: "a compressed section of \(compressed.count) bytes claims to become \(size)")
    }
    guard let region = Self.reserve(count) else { throw ElfError(text: "not enough memory for \(size) bytes") }
    self.region = region
    bytes = Bytes(base: UnsafeRawPointer(region), count: count, isBigEndian: compressed.isBigEndian)
    ready = 0
    inflation = Inflation(compressed, file)
  }

  /// Creates content of `size` bytes. `fill` writes all of it.
  ///
  /// - Throws: ``ElfError`` if memory is exhausted, or the error of `fill`.
  init(
    size: Int,
    isBigEndian: Bool = false,
    fill: (UnsafeMutableRawPointer) throws(ElfError) -> Void
  ) throws(ElfError) {
    guard size > 0, let region = Self.reserve(size) else {
      throw ElfError(text: "not enough memory for \(size) bytes")
    }
    self.region = region
    bytes = Bytes(base: UnsafeRawPointer(region), count: size, isBigEndian: isBigEndian)
    ready = size
    try fill(region)
  }

  deinit {
    // SAFETY: the region was made by `reserve` with this size.
    if let region { munmap(region, bytes.count) }
  }

  /// Makes existing bytes before `end` readable.
  @inline(__always) func require(_ end: Int) { if end > ready { inflate(to: end) } }

  var inflatedBytes: Int { region == nil ? 0 : ready }

  func requireAll() { require(bytes.count) }

  private func inflate(to end: Int) {
    guard let inflation, let region else { return }
    // Pieces grow with the inflated size, to amortize the calls.
    let target = min(bytes.count, max(end, ready + max(64 << 10, ready / 4)))
    let isComplete = inflation.fill(region, from: ready, to: target)
    ready = target
    // Bytes that cannot be inflated remain zero, which ends reading.
    if !isComplete { ready = bytes.count }
    self.inflation = ready < bytes.count ? inflation : nil
  }

  private static func reserve(_ count: Int) -> UnsafeMutableRawPointer? {
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
    let region = mmap(nil, count, PROT_READ | PROT_WRITE, flags, -1, 0)
    return region == MAP_FAILED ? nil : region
  }
}

private final class Inflation {
  private var stream = z_stream()
  private let input: Bytes
  private let file: MappedFile?
  private var released = 0
  private let isUsable: Bool

  init(_ input: Bytes, _ file: MappedFile?) {
    self.input = input
    self.file = file
    // The checksum after the stream is not verified, because this requires reading all of it.
    let content = input.from(Self.headerBytes)
    let size = Int32(MemoryLayout<z_stream>.size)
    isUsable =
      Self.hasHeader(input) && inflateInit2_(&stream, Self.withoutHeader, ZLIB_VERSION, size) == Z_OK
    // SAFETY: zlib does not write to its input.
    stream.next_in = UnsafeMutablePointer(mutating: content.base.assumingMemoryBound(to: UInt8.self))
    stream.avail_in = UInt32(clamping: content.count)
  }

  deinit { inflateEnd(&stream) }

  private static let headerBytes = 2
  /// The `windowBits` of inflateInit2 for a stream without a header and with a window of 32 KiB.
  private static let withoutHeader: Int32 = -15

  /// Whether `input` has the header of a stream without a preset dictionary (RFC 1950, 2.2).
  private static func hasHeader(_ input: Bytes) -> Bool {
    var cursor = input.cursor()
    let (method, flags) = (Int(cursor.u8()), Int(cursor.u8()))
    return !cursor.hasFailed && method & 0xf == 8 && (method << 8 | flags) % 31 == 0 && flags & 0x20 == 0
  }

  /// Writes the next bytes of the stream to `region`. Returns `false` at the stream's end.
  func fill(_ region: UnsafeMutableRawPointer, from start: Int, to end: Int) -> Bool {
    guard isUsable else { return false }
    var position = start
    while position < end {
      clinux_fork_yield()
      let room = min(end - position, 1 << 20)
      // SAFETY: the region has at least `end` bytes.
      stream.next_out = (region + position).assumingMemoryBound(to: UInt8.self)
      stream.avail_out = UInt32(room)
      let status = CCulpritZlib.inflate(&stream, Z_NO_FLUSH)
      position += room - Int(stream.avail_out)
      if status == Z_STREAM_END || (status != Z_OK && status != Z_BUF_ERROR) || stream.avail_out > 0 {
        return false
      }
    }
    releaseInput()
    return true
  }

  /// Informs the kernel that inflated data is not needed in compressed form.
  private func releaseInput() {
    let consumed = input.count - Int(stream.avail_in)
    guard consumed - released >= 256 << 10, let done = input.part(UInt64(released), UInt64(consumed - released)) else {
      return
    }
    file?.release(done)
    released = consumed
  }
}

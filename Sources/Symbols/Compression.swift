import Glibc

enum Compression {
  private static let zlibType: UInt32 = 1
  private static let zstdType: UInt32 = 2

  /// Debug information can have a few gigabytes. A header that claims more than this limit is corrupt.
  private static let sectionBytesMax: UInt64 = 64 << 30

  /// Returns the content of a section with a compression header (System V ABI, "Section Compression").
  static func content(
    of raw: Bytes,
    is64: Bool,
    _ name: String,
    _ file: MappedFile?
  ) throws(ElfError) -> SectionContent {
    var cursor = raw.cursor()
    let type = cursor.u32()
    if is64 { _ = cursor.u32() }
    let (size, _) = (cursor.offset(isWide: is64), cursor.offset(isWide: is64))
    guard !cursor.hasFailed, size <= sectionBytesMax else {
      throw ElfError(text: "the section \(name) has a damaged compression header")
    }
    let compressed = raw.from(is64 ? 24 : 12)
    switch type {
    case zlibType: return try SectionContent(inflating: compressed, to: size, of: file)
    case zstdType: return try Zstandard.content(of: compressed, size, name)
    default: throw ElfError(text: "the section \(name) is compressed in a way that is not known (\(type))")
    }
  }

  /// Returns the content of a section in GNU's older format: "ZLIB", the big-endian size, and the data.
  static func oldContent(of raw: Bytes, _ name: String, _ file: MappedFile?) throws(ElfError) -> SectionContent {
    var cursor = raw.ordered(isBigEndian: true).cursor()
    let (magic, size) = (cursor.u32(), cursor.u64())
    guard !cursor.hasFailed, magic == 0x5a4c_4942, size <= sectionBytesMax else {
      throw ElfError(text: "the section \(name) has a damaged compression header")
    }
    return try SectionContent(inflating: raw.from(12), to: size, of: file)
  }
}

/// Zstandard, through the system's library, if installed.
private enum Zstandard {
  private typealias Decompress = @convention(c) (UnsafeMutableRawPointer, Int, UnsafeRawPointer, Int) -> Int
  private typealias IsError = @convention(c) (Int) -> UInt32

  static func content(of compressed: Bytes, _ size: UInt64, _ name: String) throws(ElfError) -> SectionContent {
    guard let library = SharedLibrary("libzstd.so.1"),
      let decompress = library.function("ZSTD_decompress", as: Decompress.self),
      let isError = library.function("ZSTD_isError", as: IsError.self)
    else {
      throw ElfError(text: "the section \(name) is compressed with Zstandard, and there is no libzstd.so.1 to undo it")
    }
    guard let count = Int(exactly: size), (count &- (1 << 20)) >> 6 <= compressed.count else {
      throw ElfError(text: "the section \(name) of \(compressed.count) bytes claims to become \(size)")
    }
    return try SectionContent(size: count, isBigEndian: compressed.isBigEndian) { region throws(ElfError) in
      // SAFETY: the region has `count` bytes, and the input has as many as its count.
      let written = decompress(region, count, compressed.base, compressed.count)
      guard isError(written) == 0, written == count else {
        throw ElfError(text: "the section \(name) is damaged: Zstandard cannot decompress it")
      }
    }
  }
}

/// An image in xz format, as in `.gnu_debugdata`, through the system's library, if installed.
enum XZ {
  private typealias Decode =
    @convention(c) (
      UnsafeMutablePointer<UInt64>, UInt32, OpaquePointer?, UnsafeRawPointer, UnsafeMutablePointer<Int>, Int,
      UnsafeMutableRawPointer, UnsafeMutablePointer<Int>, Int
    ) -> UInt32

  /// The library's memory limit, and the maximum size of an image of symbols.
  private static let memoryMax: UInt64 = 256 << 20
  private static let imageBytesMax = 512 << 20
  /// LZMA_BUF_ERROR (lzma/base.h): the output does not fit.
  private static let bufferError: UInt32 = 10

  static func content(of compressed: Bytes) throws(ElfError) -> SectionContent {
    guard let library = SharedLibrary("liblzma.so.5"),
      let decode = library.function("lzma_stream_buffer_decode", as: Decode.self)
    else { throw ElfError(text: "there is no liblzma.so.5 to undo the compression of .gnu_debugdata") }
    var room = max(1 << 16, compressed.count * 8)
    while room <= imageBytesMax {
      var status: UInt32 = 0
      let content = try SectionContent(size: room) { region throws(ElfError) in
        var memory = memoryMax
        var (input, output) = (0, 0)
        // SAFETY: the region has `room` bytes, and the input has as many as its count.
        status = decode(&memory, 0, nil, compressed.base, &input, compressed.count, region, &output, room)
      }
      if status == 0 { return content }
      guard status == bufferError else { break }
      room *= 4
    }
    throw ElfError(text: "the section .gnu_debugdata is damaged: xz cannot decompress it")
  }
}

/// An optional library. Stays loaded once used.
struct SharedLibrary {
  private let handle: UnsafeMutableRawPointer

  init?(_ name: String) {
    guard let handle = dlopen(name, RTLD_NOW | RTLD_LOCAL) else { return nil }
    self.handle = handle
  }

  func function<Function>(_ name: String, as type: Function.Type) -> Function? {
    // SAFETY: callers pass the type that the library's header declares for this name.
    dlsym(handle, name).map { unsafeBitCast($0, to: type) }
  }
}

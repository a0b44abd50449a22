import CCulpritZlib

/// Writes gzip-compressed data (RFC 1952) to a sink.
package final class GzipSink {
  /// zlib's largest window, plus 16 for a gzip header.
  private static let gzipWindow: Int32 = 15 + 16
  private static let memoryLevel: Int32 = 8

  private let sink: ByteSink
  private var stream = z_stream()
  private var room = [UInt8](repeating: 0, count: 64 << 10)

  /// Returns `nil` if memory is exhausted.
  package init?(_ sink: ByteSink) {
    self.sink = sink
    let size = Int32(MemoryLayout<z_stream>.size)
    let status = deflateInit2_(
      &stream,
      Z_DEFAULT_COMPRESSION,
      Z_DEFLATED,
      Self.gzipWindow,
      Self.memoryLevel,
      Z_DEFAULT_STRATEGY,
      ZLIB_VERSION,
      size
    )
    guard status == Z_OK else { return nil }
  }

  deinit { deflateEnd(&stream) }

  package func write(_ bytes: [UInt8]) throws { try deflate(bytes, Z_NO_FLUSH) }

  package func finish() throws {
    try deflate([], Z_FINISH)
    try sink.flush()
  }

  private func deflate(_ bytes: [UInt8], _ flush: Int32) throws {
    var input = bytes
    var offset = 0
    var isDone = false
    while !isDone {
      var written = 0
      // SAFETY: zlib gets the exact size of both buffers and does not use the pointers after the call.
      input.withUnsafeMutableBufferPointer { source in
        room.withUnsafeMutableBufferPointer { target in
          stream.next_in = source.baseAddress.map { $0 + offset }
          stream.avail_in = UInt32(source.count - offset)
          stream.next_out = target.baseAddress
          stream.avail_out = UInt32(target.count)
          let status = CCulpritZlib.deflate(&stream, flush)
          offset = source.count - Int(stream.avail_in)
          written = target.count - Int(stream.avail_out)
          isDone = flush == Z_FINISH ? status != Z_OK : stream.avail_out > 0
        }
      }
      try sink.write(room[..<written])
    }
  }
}

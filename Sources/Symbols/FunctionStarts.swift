import CulpritStallRecord

/// The starts of functions from the unwind table, which delimit functions in stripped files.
struct FunctionStarts {
  let starts: [UInt64]
  private let bounds: CodeBounds

  /// Reads the table of `.eh_frame_hdr` in the linkers' encoding (Linux Standard Base, "Exception Frames"): pairs of
  /// 32-bit offsets from the section's start, function first.
  init(_ image: ElfImage) {
    bounds = CodeBounds(image)
    guard let segment = image.segments.first(where: { $0.type == ElfFormat.unwindSegment }),
      let table = image.bytes.part(segment.offset, segment.fileSize)
    else {
      starts = []
      return
    }
    var cursor = table.cursor()
    let (version, pointer, counts, offsets) = (cursor.u8(), cursor.u8(), cursor.u8(), cursor.u8())
    guard version == 1, pointer == 0x1b, counts == 0x03, offsets == 0x3b else {
      starts = []
      return
    }
    _ = cursor.u32()
    let addressMask = image.is64 ? UInt64.max : UInt64(UInt32.max)
    let claimed = Int(cursor.u32())
    starts = (0..<min(claimed, cursor.remaining / 8))
      .map { _ in
        let start = Int32(bitPattern: cursor.u32())
        _ = cursor.u32()
        return segment.address &+ UInt64(bitPattern: Int64(start)) & addressMask
      }
      .sorted()
  }

  func start(at address: FileAddress) -> FileAddress? {
    let place = starts.partitioningIndex { $0 > address.value }
    guard place > 0, address.value < bounds.end(at: starts[place - 1]) else { return nil }
    return FileAddress(starts[place - 1])
  }
}

import SampleRecordings
import Testing

@testable import CulpritStallRecord

@Suite struct PiecewiseReadingTests {
  private static let recording = {
    var stall = Stall("http", thread: (7, "shop"), began: 1_700_000_000_000_000_000)
    stall.samples = (0..<60).map { number in
      Sample(.milliseconds(number), number % 5, label: "request \(number % 3)")
    }
    stall.duration = .milliseconds(61)
    stall.hasEnded = true
    let stacks = (0..<5).map { stack in
      Stack(frames: (0...stack * 12).map { .returnAddress(RuntimeAddress(UInt64(0x1000 + $0))) }, end: .outermost)
    }
    return Recording(process: nil, stacks: stacks, stalls: [stall])
  }()

  private func pieces(of bytes: [UInt8], _ length: Int) -> () -> [UInt8] {
    var rest = bytes[...]
    return {
      defer { rest = rest.dropFirst(length) }
      return Array(rest.prefix(length))
    }
  }

  private func check(_ bytes: [UInt8], _ length: Int) throws {
    let whole = try StallFile(bytes: bytes)
    let file = try StallFile(StallFile.Extent(logsSamples: true), pieces(of: bytes, length))
    #expect(file.recording == whole.recording)
    #expect(file.problems == whole.problems)
    #expect(file.recordCount == whole.recordCount)
    #expect(file.version == whole.version)
    #expect(file.logs.map(\.count) == whole.recording.stalls.map(\.samples.count))
  }

  @Test(arguments: [1, 7, 100, 4096, 1 << 20]) func readsWholeFiles(_ length: Int) throws {
    try check(StallFileWriter.file(of: Self.recording), length)
  }

  @Test(arguments: [1, 13, 1000]) func readsTruncatedAndDamagedFiles(_ length: Int) throws {
    let whole = StallFileWriter.file(of: Self.recording)
    for place in stride(from: StallFileFormat.headerBytes, to: whole.count, by: 331) {
      try check(Array(whole[..<place]), length)
      var bytes = whole
      bytes[place] ^= 0x55
      try check(bytes, length)
      // Damage of this size is skipped, even at the end of the file.
      bytes.replaceSubrange(place..<min(place + 900, whole.count), with: repeatElement(0xff, count: 5000))
      try check(bytes, length)
    }
  }

  @Test(arguments: [1, 3, 16]) func rejectsTruncatedHeaders(_ length: Int) {
    let header = StallFileWriter.header()
    for count in 0..<header.count {
      let bytes = Array(header[..<count])
      let error = #expect(throws: StallFileError.self) { try StallFile(bytes: bytes) }
      let other = #expect(throws: StallFileError.self) { try StallFile(StallFile.Extent(), pieces(of: bytes, length)) }
      #expect(error == other)
    }
  }

  /// Only the first piece of a foreign file is read, because the file could be a disk.
  @Test func stopsReadingForeignFiles() {
    var readCount = 0
    let error = #expect(throws: StallFileError.self) {
      try StallFile(StallFile.Extent()) {
        readCount += 1
        return [UInt8](repeating: 0x7f, count: 4096)
      }
    }
    #expect(error == .notAStallFile(begins: [UInt8](repeating: 0x7f, count: 8)))
    #expect(readCount == 1)
  }

  @Test func boundsRetainedData() {
    // A note without a stall is skipped, but counts towards the limit.
    let note = StallFileWriter.record(
      of: StallNote(.context, title: "", text: String(repeating: "a", count: 65_000), time: .zero),
      stallID: 1
    )
    var isFirst = true
    let error = #expect(throws: StallFileError.self) {
      try StallFile(StallFile.Extent()) {
        defer { isFirst = false }
        return isFirst ? StallFileWriter.header() : note
      }
    }
    #expect(error == .tooLarge(bytes: 256 << 20))
  }
}

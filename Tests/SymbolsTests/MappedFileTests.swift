import Foundation
import TestSupport
import Testing

@testable import CulpritSymbols

@Suite struct MappedFileTests {
  @TemporaryDirectory private var directory: String

  private func saved(_ content: [UInt8]) throws -> String {
    try Data(content).write(to: URL(fileURLWithPath: directory + "/file"))
    return directory + "/file"
  }

  /// The resident KiB of the mapping at `address` (proc(5), smaps).
  private func resident(_ address: UnsafeRawPointer) throws -> Int {
    let head = String(UInt(bitPattern: address), radix: 16) + "-"
    // Foundation's String initializers stop after the first chunk of such a file.
    let file = try #require(FileHandle(forReadingAtPath: "/proc/self/smaps"))
    let lines = String(decoding: file.readDataToEndOfFile(), as: UTF8.self).split(separator: "\n")
    let begin = try #require(lines.firstIndex { $0.hasPrefix(head) })
    let line = try #require(lines[begin...].first { $0.hasPrefix("Rss:") })
    return try #require(line.split(separator: " ").dropFirst().first.flatMap { Int($0) })
  }

  private func touch(_ file: MappedFile) -> Int {
    stride(from: 0, to: file.bytes.count, by: 4096)
      .reduce(0) { $0 + Int(file.bytes.base.load(fromByteOffset: $1, as: UInt8.self)) }
  }

  @Test func releasesResidentPages() throws {
    let path = try saved([UInt8](repeating: 1, count: 16 * 4096))
    let file = try MappedFile(path: path)
    let base = file.bytes.base
    func left(_ part: Range<Int>) throws -> Int {
      #expect(touch(file) == 16)
      try #require(try resident(base) == 64)
      file.release(Bytes(base: base + part.lowerBound, count: part.count))
      defer { #expect(touch(file) == 16) }
      return try resident(base)
    }
    #expect(try left(0..<16 * 4096) == 0)
    #expect(try left(4096..<8 * 4096) == 64 - 7 * 4)
    #expect(try left(4097..<8 * 4096) == 64 - 6 * 4)
    #expect(try left(4095..<8 * 4096 - 1) == 64 - 6 * 4)
    #expect(try left(4097..<8191) == 64)
    #expect(try left(4096..<4096) == 64)
  }

  @Test func unmapsOnDeinit() throws {
    func mappings(of path: String) throws -> Int {
      let file = try #require(FileHandle(forReadingAtPath: "/proc/self/maps"))
      return String(decoding: file.readDataToEndOfFile(), as: UTF8.self).split(separator: "\n").count {
        $0.hasSuffix(path)
      }
    }
    let path = try saved([1, 2, 3])
    var file: MappedFile? = try MappedFile(path: path)
    #expect(file?.bytes.count == 3)
    #expect(try mappings(of: path) == 1)
    file = nil
    #expect(try mappings(of: path) == 0)
  }
}

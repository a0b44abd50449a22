import Foundation
import Testing

@testable import CulpritStallRecord

/// A file of this format version, which later versions must still read.
@Suite struct GoldenFileTests {
  private func path(_ name: String) -> URL {
    URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "Golden/\(name)")
  }

  /// The content of a file, one line per value.
  private func text(_ recording: Recording) -> String {
    var text = ""
    dump(recording.process, to: &text, name: "process")
    dump(recording.modules, to: &text, name: "modules")
    dump(recording.stacks, to: &text, name: "stacks")
    dump(recording.stalls, to: &text, name: "stalls")
    dump(recording.names.sorted { $0.key < $1.key }, to: &text, name: "names")
    return text
  }

  @Test func readsEveryValue() throws {
    let file = try StallFile(bytes: [UInt8](Data(contentsOf: path("version-1.0.stall"))))
    #expect(file.version == (1, 0))
    #expect(file.problems.isEmpty)
    let text = text(file.recording)
    let expected = path("version-1.0.dump")
    if getenv("RECORD_SNAPSHOTS") != nil { try text.write(to: expected, atomically: true, encoding: .utf8) }
    let lines = try String(contentsOf: expected, encoding: .utf8).split(separator: "\n")
    for (line, expected) in zip(text.split(separator: "\n"), lines) { try #require(line == expected) }
    #expect(text.split(separator: "\n").count == lines.count)
  }

  /// To make the file of a new version, read the newest file, set the new values and write it.
  @Test func writesTheSameBytes() throws {
    let bytes = try [UInt8](Data(contentsOf: path("version-1.0.stall")))
    let written = StallFileWriter.file(of: try StallFile(bytes: bytes).recording)
    #expect(written == bytes, "files of a released version never change")
  }

  @Test func bytesMatchTheDocumentation() throws {
    let bytes = try [UInt8](Data(contentsOf: path("version-1.0.stall")))
    var page = DocumentedFormat(bytes)
    let text = try page.text()
    if getenv("RECORD_SNAPSHOTS") != nil {
      try text.write(to: path("version-1.0.txt"), atomically: true, encoding: .utf8)
    }
    let expected = try String(contentsOf: path("version-1.0.txt"), encoding: .utf8)
    let (lines, expectedLines) = (text.split(separator: "\n"), expected.split(separator: "\n"))
    for (line, expected) in zip(lines, expectedLines) { try #require(line == expected) }
    #expect(lines.count == expectedLines.count)
    #expect(page.kinds == Set(1...12).union([14]))
  }
}

import Foundation
import Testing

/// Compares `text` with Golden/`name` in the test's directory, or writes that file if RECORD_SNAPSHOTS is set.
package func expectGolden(
  _ text: String,
  _ name: String,
  in test: String = #filePath,
  sourceLocation: Testing.SourceLocation = #_sourceLocation
) throws {
  let folder = URL(fileURLWithPath: test).deletingLastPathComponent()
  let path = folder.appendingPathComponent("Golden/\(name)")
  if ProcessInfo.processInfo.environment["RECORD_SNAPSHOTS"] != nil {
    try text.write(to: path, atomically: true, encoding: .utf8)
    return
  }
  let expected = try? String(contentsOf: path, encoding: .utf8)
  #expect(
    text == expected,
    "differs from Golden/\(name); if it should, run RECORD_SNAPSHOTS=1 tools/test --filter \(folder.lastPathComponent)",
    sourceLocation: sourceLocation
  )
}

import Foundation
import Testing

@Suite struct DocumentedUseTests {
  @Test func documentedCodeIsCompiled() throws {
    let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
    let root = tests.appending(path: "../../..").standardized
    func compact(_ text: some StringProtocol) -> String { String(text.filter { !$0.isWhitespace }) }
    let compiled = compact(try String(contentsOf: tests.appending(path: "DocumentedUse.swift"), encoding: .utf8))
    var count = 0
    for page in ["README.md", "docs/getting-started.md", "docs/metrics.md", "docs/what-to-watch.md"] {
      let text = try String(contentsOf: root.appending(path: page), encoding: .utf8)
      for block in text.matches(of: /```swift\n((?:.|\n)*?)```/).map(\.1) where block.contains("import Culprit") {
        guard block.contains(/import Culprit[A-Z]/) else { continue }
        count += 1
        for line in block.split(separator: "\n") where !line.hasPrefix("import ") {
          let code = compact(line.replacing(#/ +// .*/#, with: ""))
          #expect(compiled.contains(code), "\(page): \(line)")
        }
      }
    }
    #expect(count >= 8)
  }
}

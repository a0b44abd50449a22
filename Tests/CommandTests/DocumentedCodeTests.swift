import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct DocumentedCodeTests {
  @TemporaryDirectory private var directory: String
  private static let declarations = """
    struct Log: Sendable {
      enum Value { case string(String) }
      func error(_ text: String, metadata: [String: Value] = [:]) {}
      func warning(_ text: String) {}
      func notice(_ text: String) {}
      func info(_ text: String) {}
      func debug(_ text: String) {}
    }
    struct Work: Sendable {
      let count = 0
      func execute(_ body: @escaping @Sendable () -> Void) { body() }
      func cancel() {}
    }
    struct Event: Sendable {}
    let log = Log()
    let logger = Log()
    let eventLoop = Work()
    let loops = [Work()]
    let request = Work()
    let queue = Work()
    let isDraining = false
    nonisolated(unsafe) var configuration = Watchdog.Configuration()
    let watchdog = try! Watchdog()
    let loop = try! watchdog.watchLoop(named: "accept")
    func poll() -> [Event]? { nil }
    func handle(_ events: [Event]) {}
    func handle(_ request: Work) {}
    func handle(_ request: Work) async {}
    func send(_ request: Work) {}
    func importOrders() {}
    func warmUp() {}

    """

  /// Code of packages that this package does not depend on. `Integrations/` compiles such code.
  private static let foreign = [
    ".package(", "import CulpritHummingbird", "import CulpritLogging", "import CulpritMetrics", "import CulpritNIO",
    "import CulpritServiceLifecycle", "import CulpritTesting", "import CulpritTracing", "import CulpritVapor",
    "router.",
  ]

  @Test func compilesDocumentedExamples() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..").standardized
    let pages = try FileManager.default.contentsOfDirectory(atPath: root.appending(path: "docs").path)
      .filter { $0.hasSuffix(".md") }.sorted().map { "docs/\($0)" }
    var source = "import Culprit\nimport Dispatch\nimport Foundation\n\n" + Self.declarations
    var count = 0
    for page in ["README.md"] + pages {
      let text = try String(contentsOf: root.appending(path: page), encoding: .utf8)
      for block in text.matches(of: /```swift\n((?:.|\n)*?)```/).map(\.1)
      where !Self.foreign.contains(where: { block.contains($0) }) {
        count += 1
        let statements = block.split(separator: "\n", omittingEmptySubsequences: false)
          .filter { !$0.hasPrefix("import ") }.joined(separator: "\n").replacing("{ … }", with: "{}")
        source += "// \(page)\nfunc example\(count)() async throws {\n\(statements)}\n"
      }
    }
    #expect(count > 15)
    let file = "\(directory)/examples.swift"
    try source.write(toFile: file, atomically: true, encoding: .utf8)
    let build = URL(fileURLWithPath: ChildProcess.built("culprit")).deletingLastPathComponent()
    var arguments = ["swiftc", "-typecheck", "-swift-version", "6", "-module-cache-path", "\(directory)/modules"]
    arguments += ["-I", build.appending(path: "Modules").path, file]
    let cModules = root.appending(path: "CSupport").path
    for parent in [cModules, build.path] {
      for folder in try FileManager.default.contentsOfDirectory(atPath: parent) {
        arguments += parent == cModules ? ["-Xcc", "-I\(parent)/\(folder)/include"] : []
        let map = "\(parent)/\(folder)/module.modulemap"
        if FileManager.default.fileExists(atPath: map) { arguments += ["-Xcc", "-fmodule-map-file=\(map)"] }
      }
    }
    let compiler = try ChildProcess("/usr/bin/env", arguments, keepsErrors: true)
    #expect(compiler.hasExited && compiler.status == 0, "\(compiler.errors)")
  }
}

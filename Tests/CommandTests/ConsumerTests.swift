import Foundation
import TestSupport
import Testing

/// Somebody else's package, built as they would: with the tools of 5.9 and of 6.1.
@Suite(.serialized) struct ConsumerTests {
  private var root: URL {
    URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..").standardizedFileURL
  }

  @Test(arguments: ["5.9", "6.1"]) func oneImportIsEnoughAndNoNameCollides(tools: String) throws {
    let package = FileManager.default.temporaryDirectory.appending(path: "culprit-consumer-\(UUID().uuidString)")
    try FileManager.default.copyItem(at: root.appending(path: "Tests/Processes/Consumer"), to: package)
    defer { try? FileManager.default.removeItem(at: package) }
    let manifest = package.appending(path: "Package.swift")
    try String(contentsOf: manifest, encoding: .utf8)
      .replacingOccurrences(of: "TOOLS", with: tools).replacingOccurrences(of: "CULPRIT", with: root.path)
      .write(to: manifest, atomically: true, encoding: .utf8)
    // What is built of Culprit itself is kept from run to run.
    let scratch = root.appending(path: ".build/consumer").path
    let build = ["build", "--package-path", package.path, "--scratch-path", scratch, "--disable-sandbox"]
    let built = try run(URL(fileURLWithPath: "/usr/bin/env"), ["swift"] + build)
    #expect(built.status == 0, "\(built)")
    #expect(!built.out.contains("warning:"), "\(built.out)")
    let outcome = try run(URL(fileURLWithPath: "\(scratch)/debug/consumer"), [])
    #expect(outcome.status == 0, "\(outcome)")
    let lines = Set(outcome.out.split(separator: "\n").map(String.init))
    for line in [
      "verdict=culprit", "source=section \"rebuild\" true", "thread=true", "error=alreadyWatched accept true",
      "metadata=computeForLong(_:)", "text=true", "threads=true", "context=", "share=true true true", "tree=true",
    ] { #expect(lines.contains { $0.contains(line) }, "\(line) is missing in\n\(outcome.out)") }
    #expect(lines.contains { $0.hasPrefix("culprit=computeForLong(_:) main.swift:") && $0.hasSuffix("own=true true") })
    #expect(!lines.contains { $0.hasPrefix("failed=") }, "\(outcome.out)")
  }
}

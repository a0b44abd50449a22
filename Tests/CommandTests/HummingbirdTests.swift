import Foundation
import TestSupport
import Testing

/// Where Hummingbird 2 and what it needs lie as repositories, with a program `unpack` that makes git find them; else nowhere.
private let packages: URL? = {
  let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..").standardizedFileURL
  let path = ProcessInfo.processInfo.environment["CULPRIT_TEST_PACKAGES"] ?? root.path + "/../shared/frameworks"
  return FileManager.default.isExecutableFile(atPath: path + "/unpack") ? URL(fileURLWithPath: path) : nil
}()

/// A real service: its handlers hang, and the report says which function of which route's handler.
@Suite(
  .serialized,
  .enabled(if: packages != nil, "Hummingbird's packages are not here: CULPRIT_TEST_PACKAGES says where they lie")
) struct HummingbirdTests {
  private static let program = Result { try build() }

  /// Builds the service, once.
  private static func build() throws -> URL {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..").standardizedFileURL
    let scratch = root.appending(path: ".build/hummingbird")
    let package = scratch.appending(path: "package")
    try? FileManager.default.removeItem(at: package)
    try FileManager.default.createDirectory(at: scratch, withIntermediateDirectories: true)
    try FileManager.default.copyItem(at: root.appending(path: "Tests/Processes/HummingbirdService"), to: package)
    let manifest = package.appending(path: "Package.swift")
    try String(contentsOf: manifest, encoding: .utf8).replacingOccurrences(of: "CULPRIT", with: root.path)
      .write(to: manifest, atomically: true, encoding: .utf8)
    let script = """
      eval "$("$1/unpack" "$2/repositories")"
      exec swift build --package-path "$2/package" --scratch-path "$2/build" --disable-sandbox \
        --resolver-fingerprint-checking warn
      """
    let place = try #require(packages).path
    let built = try run(URL(fileURLWithPath: "/bin/bash"), ["-c", script, "build", place, scratch.path])
    try #require(built.status == 0, "\(built)")
    return scratch.appending(path: "build/debug/hummingbird-process")
  }

  private func ask(_ words: String...) throws -> String {
    let outcome = try run(try Self.program.get(), words)
    #expect(outcome.status == 0, "\(outcome)")
    return outcome.out
  }

  /// A has returned when the time is up, and B runs: the report names A and the route's handler as its caller.
  @Test(arguments: [("one", "serveSlowly()"), ("all", "serveSlowly()"), ("child", "serveWithChild()")])
  func whatAHandlerHangsInIsNamed(kind: String, handler: String) throws {
    let text = try ask(kind)
    #expect(text.contains("\nCULPRIT   fillTheCache() "), "\(text)")
    let called = text.split(separator: "\n").first { $0.contains("called from: ") } ?? ""
    #expect(called.contains(handler), "\(text)")
    #expect(text.contains("\nreports=1\n"), "\(text)")
  }

  @Test func aServiceThatServesIsLeftAlone() throws {
    let text = try ask("healthy", "10")
    #expect(text.contains("\nreports=0\n") && text.contains("requests="), "\(text)")
  }
}

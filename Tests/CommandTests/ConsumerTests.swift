import Foundation
import TestSupport
import Testing

/// Somebody else's package, built as they would: with the tools of 5.9 and of 6.1.
@Suite(.serialized) struct ConsumerTests {
  private var root: URL {
    URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..").standardizedFileURL
  }

  /// Builds it with the tools of this version, for where Culprit watches or for `elsewhere`, and runs it.
  private func outcome(tools: String, elsewhere: Bool = false) throws -> Set<String> {
    let package = FileManager.default.temporaryDirectory.appending(path: "culprit-consumer-\(UUID().uuidString)")
    try FileManager.default.copyItem(at: root.appending(path: "Tests/Processes/Consumer"), to: package)
    defer { try? FileManager.default.removeItem(at: package) }
    let manifest = package.appending(path: "Package.swift")
    try String(contentsOf: manifest, encoding: .utf8)
      .replacingOccurrences(of: "TOOLS", with: tools).replacingOccurrences(of: "CULPRIT", with: root.path)
      .write(to: manifest, atomically: true, encoding: .utf8)
    // What is built of Culprit itself is kept from run to run.
    let scratch = root.appending(path: elsewhere ? ".build/elsewhere" : ".build/consumer").path
    let build = ["build", "--package-path", package.path, "--scratch-path", scratch, "--disable-sandbox"]
    let place = "BUILD_CULPRIT_FOR=\(elsewhere ? "elsewhere" : "linux")"
    let built = try run(URL(fileURLWithPath: "/usr/bin/env"), [place, "swift"] + build)
    #expect(built.status == 0, "\(built)")
    #expect(!built.out.contains("warning:"), "\(built.out)")
    let outcome = try run(URL(fileURLWithPath: "\(scratch)/debug/consumer"), [])
    #expect(outcome.status == 0, "\(outcome)")
    return Set(outcome.out.split(separator: "\n").map(String.init))
  }

  @Test(arguments: ["5.9", "6.1"]) func oneImportIsEnoughAndNoNameCollides(tools: String) throws {
    let lines = try outcome(tools: tools)
    for line in [
      "verdict=culprit", "source=section \"rebuild\" true", "thread=true", "error=alreadyWatched accept true",
      "metadata=computeForLong(_:)", "text=true", "threads=true", "context=", "share=true true true", "tree=true",
    ] { #expect(lines.contains { $0.contains(line) }, "\(line) is missing in\n\(lines)") }
    #expect(lines.contains { $0.hasPrefix("culprit=computeForLong(_:) main.swift:") && $0.hasSuffix("own=true true") })
    #expect(!lines.contains { $0.hasPrefix("failed=") }, "\(lines)")
  }

  /// Where nothing is watched, here as well: what is compiled there does not ask what it runs on.
  @Test func elsewhereItDoesNothingAndSaysSo() throws {
    let lines = try outcome(tools: "6.1", elsewhere: true)
    for line in [
      "mode=disabled limitations=[\"platform: nothing is watched, because Culprit watches on Linux with glibc only\"]",
      "nothing=true true true", "stalls=ended", "bodies=3 watched=false unstalled=true",
      "reconfigure=invalidConfiguration", "refused=10",
      "threads=stacks cannot be captured here: Culprit watches on Linux with glibc only", "stopped=true disabled",
    ] { #expect(lines.contains(line), "\(line) is missing in\n\(lines)") }
    #expect(!lines.contains { $0.hasPrefix("failed=") || $0.hasPrefix("reported=") }, "\(lines)")
    let (here, there) = (try interface(in: ".build/debug"), try interface(in: ".build/elsewhere/debug"))
    #expect(here.count > 300)
    #expect(here.subtracting(there) == [], "missing elsewhere")
    #expect(there.subtracting(here) == [], "missing on Linux")
  }

  /// What a manifest cannot know it is told; a word that it does not know is quoted, and an empty one is none.
  @Test func aPlaceThatIsUnknownIsToldInALine() throws {
    func outcome(_ place: String, _ action: String, _ arguments: [String] = []) throws -> Outcome {
      let scratch = root.appending(path: ".build/places").path
      let options = ["--package-path", root.path, "--scratch-path", scratch, "--disable-sandbox"]
      let words = ["BUILD_CULPRIT_FOR=\(place)", "swift", action] + options + arguments
      return try run(URL(fileURLWithPath: "/usr/bin/env"), words)
    }
    let unknown = try outcome("mac", "build")
    #expect(unknown.status == 1)
    let lines = (unknown.out + unknown.error).split(separator: "\n").filter { $0.contains("BUILD_CULPRIT_FOR") }
    #expect(lines.count == 1 && lines[0].contains("must be linux or elsewhere, not mac"), "\(unknown)")
    func description(_ place: String) throws -> Outcome {
      try outcome(place, "package", ["describe", "--type", "json"])
    }
    let (linux, none, elsewhere) = (try description("linux"), try description(""), try description("elsewhere"))
    #expect(linux.status == 0 && linux.out.contains("Lifecycle/"), "\(linux)")
    #expect(none.out == linux.out)
    #expect(elsewhere.status == 0 && !elsewhere.out.contains("Lifecycle/"), "\(elsewhere)")
  }

  /// A platform's name becomes that of a folder that is made anew.
  @Test(arguments: ["../../docs", "", "arm64", "/tmp"]) func aTargetThatIsNoneIsRefused(target: String) throws {
    let outcome = try run(root.appending(path: "tools/check-platforms"), [target])
    #expect(outcome.status == 2)
    #expect(outcome.error.hasPrefix("check-platforms: \"\(target)\" is no target\n"), "\(outcome)")
    #expect(outcome.out == "")
  }

  /// The declarations that a service sees in the module that was built in this folder: a line for each, with its path.
  private func interface(in folder: String) throws -> Set<String> {
    struct Graph: Decodable {
      struct Symbol: Decodable {
        struct Fragment: Decodable { var spelling: String }
        var pathComponents: [String]
        var declarationFragments: [Fragment]
        var line: String {
          "\(pathComponents.joined(separator: ".")): \(declarationFragments.map(\.spelling).joined())"
        }
      }
      var symbols: [Symbol]
    }
    let graphs = FileManager.default.temporaryDirectory.appending(path: "culprit-symbols-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: graphs, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: graphs) }
    // The modules of C that the one on Linux refers to.
    let (support, built) = (root.appending(path: "CSupport").path, root.appending(path: folder).path)
    let headers = try FileManager.default.contentsOfDirectory(atPath: support).map { "-I\(support)/\($0)/include" }
    let modules = try FileManager.default.contentsOfDirectory(atPath: built)
      .filter { $0.hasPrefix("CCulprit") && $0.hasSuffix(".build") }
    let maps = (modules.map { "\(built)/\($0)" } + ["\(support)/CZlib"])
      .map { "-fmodule-map-file=\($0)/module.modulemap" }
    let information = try run(URL(fileURLWithPath: "/usr/bin/env"), ["swiftc", "-print-target-info"]).out
    let target = try #require(information.firstMatch(of: /"triple": "([^"]+)"/)?.1)
    let extraction =
      ["swift", "symbolgraph-extract", "-module-name", "Culprit", "-target", String(target), "-I", "\(built)/Modules"]
      + ["-minimum-access-level", "public", "-output-dir", graphs.path] + (headers + maps).flatMap { ["-Xcc", $0] }
    let extracted = try run(URL(fileURLWithPath: "/usr/bin/env"), extraction)
    #expect(extracted.status == 0, "\(extracted)")
    var lines: Set<String> = []
    for name in try FileManager.default.contentsOfDirectory(atPath: graphs.path) {
      let graph = try JSONDecoder().decode(Graph.self, from: Data(contentsOf: graphs.appending(path: name)))
      lines.formUnion(graph.symbols.map(\.line))
    }
    return lines
  }
}

import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

/// Runs the commands in the console blocks of README and docs, and compares the shown output.
@Suite(.ownThread) struct DocumentedCommandsTests {
  private struct Command {
    var text: String
    /// The lines that the page shows below the command; empty if it shows none.
    var output: [Substring] = []

    /// The reason why a test cannot run the command; `nil` if it can.
    var obstacle: String? {
      if text.contains("…") { return "shortened" }
      if text.hasPrefix("apt-get ") { return "installs packages" }
      if text.contains("swift build ") { return "builds a package" }
      if text.hasPrefix("tools/") || text.hasPrefix(".ci/") { return "runs for minutes" }
      if text.hasPrefix("curl ") { return "needs a server" }
      if text.contains(" 4242") || text.hasSuffix("&") { return "needs a running service" }
      return nil
    }
  }

  /// Third-party programs that read the command's output. A program that discards its input replaces a missing reader.
  private static let readers = ["check-jsonschema", "flamegraph.pl", "jq"]
  /// Documented paths, which the test creates below its directory.
  private static let places = ["/var/lib/shop", "/srv", "/usr/local/share", "/usr/lib/libshop.so"]
  private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../..")
    .standardized.path

  private static func pages() throws -> [String] {
    try ["docs", "docs/internals"].reduce(into: ["README.md", "CONTRIBUTING.md"]) { pages, folder in
      let names = try FileManager.default.contentsOfDirectory(atPath: "\(root)/\(folder)").sorted()
      pages += names.filter { $0.hasSuffix(".md") }.map { "\(folder)/\($0)" }
    }
  }

  /// Returns the commands of the blocks that begin with a prompt. A command continues after a line that ends in `|` or
  /// a backslash.
  private static func commands(of page: String) throws -> [Command] {
    let text = try String(contentsOfFile: "\(root)/\(page)", encoding: .utf8)
    return text.matches(of: /```[a-z]*\n(\$ (?:.|\n)*?)```/).flatMap { block in
      var commands: [Command] = []
      var goesOn = false
      for line in block.1.split(separator: "\n", omittingEmptySubsequences: false) {
        if goesOn {
          commands[commands.count - 1].text += "\n\(line)"
        } else if line.hasPrefix("$ ") {
          commands.append(Command(text: String(line.dropFirst(2))))
        } else {
          commands[commands.count - 1].output.append(line)
          continue
        }
        goesOn = line.hasSuffix("|") || line.hasSuffix("\\")
      }
      for place in commands.indices {
        while commands[place].output.last == "" { commands[place].output.removeLast() }
      }
      return commands
    }
  }

  /// Creates the files that `page` names. The newest stall is a day old.
  private func prepare(_ directory: String, for page: String) throws {
    let folders = [
      "work", "bin", "var/lib/shop/stalls", "srv/stalls/build-41", "srv/stalls/build-42", "usr/lib",
      "usr/local/share/zsh/site-functions", "usr/local/share/man/man1", "home/.local/share/bash-completion/completions",
      "home/.config/fish/completions",
    ]
    let files = FileManager.default
    for folder in folders {
      try files.createDirectory(atPath: "\(directory)/\(folder)", withIntermediateDirectories: true)
    }
    var stalls = ExampleStalls()
    let newest = try stalls.time("2026-11-23T08:00:00Z").nanosecondsSince1970
    stalls.days = Int(Date().timeIntervalSince1970 / 86_400) - Int(newest / 86_400_000_000_000) - 1
    let saved = "\(directory)/var/lib/shop/stalls"
    if page.hasSuffix("many-stalls.md") { try stalls.saveLast(in: saved) } else { try stalls.saveWeek(in: saved) }
    try stalls.saveBuilds(before: "\(directory)/srv/stalls/build-41", after: "\(directory)/srv/stalls/build-42")
    try stalls.write(SampleRecordings.everyday(), "\(directory)/work/stall.stall")
    try Data("0x1000\n0x1a2b0\n".utf8).write(to: URL(fileURLWithPath: "\(directory)/work/addresses"))
    for program in ["work/shop", "usr/lib/libshop.so"] {
      try files.createSymbolicLink(
        atPath: "\(directory)/\(program)",
        withDestinationPath: ChildProcess.built("waiting-process")
      )
    }
    try files.createSymbolicLink(atPath: "\(directory)/work/docs", withDestinationPath: "\(Self.root)/docs")
    for reader in Self.readers where try !isInstalled(reader) {
      let path = "\(directory)/bin/\(reader)"
      try Data("#!/bin/sh\nexec cat >/dev/null\n".utf8).write(to: URL(fileURLWithPath: path))
      try files.setAttributes([.posixPermissions: 0o755], ofItemAtPath: path)
    }
  }

  private func isInstalled(_ program: String) throws -> Bool {
    try ChildProcess("/bin/sh", ["-c", "command -v \(program) >/dev/null"]).status == 0
  }

  private func run(_ command: Command, in directory: String) throws -> ChildProcess {
    var text = command.text.replacing(/\bDIRECTORY\b/, with: "/var/lib/shop/stalls")
    for place in Self.places { text = text.replacingOccurrences(of: place, with: directory + place) }
    let build = URL(fileURLWithPath: ChildProcess.built("culprit")).deletingLastPathComponent().path
    let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
    var outcome = try ChildProcess(
      "/bin/bash",
      ["-eo", "pipefail", "-c", text],
      environment: ["PATH": "\(directory)/bin:\(build):\(path)", "HOME": "\(directory)/home", "BROWSER": "true"],
      directory: "\(directory)/work",
      keepsErrors: true
    )
    outcome.output = outcome.output.replacingOccurrences(of: directory, with: "")
    return outcome
  }

  /// Replaces dates, which depend on the day of the test.
  private func withoutDays(_ text: String) -> String {
    text.replacing(/\d{4}-\d\d-\d\d/, with: "DAY")
  }

  @Test func runsDocumentedCommands() throws {
    var count = 0
    var compared = 0
    var skipped: [String: Int] = [:]
    for page in try Self.pages() {
      let commands = try Self.commands(of: page)
      guard !commands.isEmpty else { continue }
      try withTemporaryDirectory { directory in
        try prepare(directory, for: page)
        for command in commands {
          for path in command.text.matches(of: /(?:docs|tools|\.ci)\/[\w.\/-]+/).map({ String($0.0) }) {
            #expect(FileManager.default.fileExists(atPath: "\(Self.root)/\(path)"), "\(page): no file \(path)")
          }
          if let obstacle = command.obstacle {
            skipped[obstacle, default: 0] += 1
            #expect(command.output.isEmpty, "\(page): unverified output of $ \(command.text)")
            continue
          }
          count += 1
          let outcome = try run(command, in: directory)
          let hasSucceeded = outcome.hasExited && outcome.status == 0 && outcome.errors == ""
          #expect(hasSucceeded, "\(page): $ \(command.text)\n\(outcome)")
          guard !command.output.isEmpty else { continue }
          compared += 1
          let expected = command.output.map { $0 + "\n" }.joined()
          #expect(withoutDays(outcome.output) == withoutDays(expected), "\(page): $ \(command.text)\n\(outcome.output)")
        }
      }
    }
    #expect(count > 25 && compared > 2)
    let reasons = skipped.sorted { $0.key < $1.key }.map { "\($0.value) (\($0.key))" }.joined(separator: ", ")
    print("documented commands: \(count) run, \(compared) outputs compared; not run: \(reasons)")
  }
}

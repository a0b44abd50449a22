import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@Suite(.ownThread) struct ExportCommandTests {
  @TemporaryDirectory private var directory: String
  private let everyday = Data(StallFileWriter.file(of: SampleRecordings.everyday()))

  private func write(_ recording: Recording, to path: String) throws {
    try Data(StallFileWriter.file(of: recording)).write(to: URL(fileURLWithPath: path))
  }

  @Test func exportsStandardInputToStandardOutput() throws {
    let outcome = try culprit(["export"], input: everyday)
    #expect(outcome.status == 0 && outcome.error == "", "\(outcome)")
    #expect(outcome.out.hasPrefix("event loop \"http\";_start;main;Server.run();Catalog.rebuildIndex(for:)"))
    for format in ["firefox", "chrome", "perfetto"] {
      let outcome = try culprit(["export", "--format=\(format)"], input: everyday)
      #expect(outcome.status == 0)
      _ = try JSONSerialization.jsonObject(with: Data(outcome.out.utf8))
    }
  }

  @Test func infersFormatFromFileName() throws {
    let path = "\(directory)/x.pb.gz"
    let outcome = try culprit(["export", "-o", path], input: everyday)
    #expect(outcome.status == 0 && outcome.out == "")
    #expect(try Data(contentsOf: URL(fileURLWithPath: path)).prefix(2) == Data([0x1f, 0x8b]))
    let other = "\(directory)/x.trace.json"
    #expect(try culprit(["export", "-fcollapsed", "-o", other], input: everyday).status == 0)
    #expect(try String(contentsOfFile: other, encoding: .utf8).hasPrefix("event loop"))
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory).sorted() == ["x.pb.gz", "x.trace.json"])
  }

  @Test(arguments: [
    ("X.HTML", "<!DOCTYPE html>"), ("x.htm", "<!DOCTYPE html>"), ("x.txt", "event loop"), ("x.Folded", "event loop"),
    ("x.Firefox.JSON", "{"), ("x", "event loop"), (".hidden", "event loop"), ("x.", "event loop"),
    ("a.b/x", "event loop"),
  ])
  func ignoresCaseOfExtensions(name: String, beginning: String) throws {
    try FileManager.default.createDirectory(atPath: "\(directory)/a.b", withIntermediateDirectories: true)
    let outcome = try culprit(["export", "-o", "\(directory)/\(name)"], input: everyday)
    #expect(outcome.status == 0 && outcome.out + outcome.error == "", "\(outcome)")
    #expect(try String(contentsOfFile: "\(directory)/\(name)", encoding: .utf8).hasPrefix(beginning))
  }

  @Test(arguments: ["x.json", "x.pb", "a.svg", "x.firefox.json.bak", "x.jsonl", "X.JSONL"])
  func rejectsUnknownExtensions(name: String) throws {
    let path = "\(directory)/\(name)"
    let refused = try culprit(["export", "-o", path], input: everyday)
    #expect(refused.status == 2 && refused.out == "", "\(refused)")
    let reason =
      name.lowercased().hasSuffix(".jsonl")
      ? "is a file, but jsonl needs a directory or standard output: use --format=jsonl -o DIRECTORY"
      : "has the unknown suffix .\(name.split(separator: ".").last ?? ""): use --format=FORMAT, or one of the suffixes "
        + ".html, .htm, .folded, .collapsed, .txt, .pb.gz, .pprof, .firefox.json, "
        + ".trace.json, .otlp, .otlp.pb"
    #expect(refused.error.hasPrefix("culprit: --output=\(path) \(reason)\n"), "\(refused)")
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory).isEmpty)
    #expect(try culprit(["export", "-fcollapsed", "-o", path], input: everyday).status == 0)
  }

  @Test func mergesFilesOfDirectory() throws {
    try write(SampleRecordings.workers(), to: "\(directory)/culprit-20261120T110000.000Z-7-2.stall")
    try write(SampleRecordings.everyday(), to: "\(directory)/culprit-20261120T100000.000Z-7-1.stall")
    let outcome = try culprit(["export", directory])
    #expect(outcome.status == 0)
    let lines = outcome.out.split(separator: "\n")
    #expect(lines.first?.hasPrefix("event loop") == true && lines.last?.hasPrefix("thread pool") == true)
  }

  /// The export of a directory with two copies of a stall must equal the export of one copy.
  @Test(arguments: ["collapsed", "pprof", "firefox", "chrome", "otlp", "html", "jsonl"])
  func countsDuplicateFilesOnce(format: String) throws {
    let path = "\(directory)/culprit-20261120T100000.000Z-7-1.stall"
    try write(SampleRecordings.everyday(), to: path)
    try write(SampleRecordings.everyday(), to: "\(directory)/copy.stall")
    func export(_ operand: String) throws -> Data {
      let out = "\(directory)/out"
      let words = format == "jsonl" ? [operand] : ["-o", out, operand]
      let outcome = try culprit(["export", "--format=\(format)"] + words)
      #expect(outcome.status == 0, "\(outcome.error)")
      return format == "jsonl" ? Data(outcome.out.utf8) : try Data(contentsOf: URL(fileURLWithPath: out))
    }
    #expect(try export(directory) == export(path))
  }

  @Test(arguments: [
    (["--format=svg"], "--format is html, collapsed, pprof, firefox, chrome, otlp or jsonl, not \"svg\""),
    (["--raw"], "--raw requires --format=pprof"), (["--nothing"], "unknown option --nothing"),
  ])
  func exitsWithTwoOnUsageError(arguments: [String], sentence: String) throws {
    let outcome = try culprit(["export"] + arguments, input: everyday)
    #expect(outcome.status == 2 && outcome.out == "")
    #expect(outcome.error.hasPrefix("culprit: \(sentence)\n"))
  }

  @Test func continuesAfterBadFiles() throws {
    try write(SampleRecordings.everyday(), to: "\(directory)/good.stall")
    try everyday.prefix(everyday.count - 5).write(to: URL(fileURLWithPath: "\(directory)/cut"))
    try Data("hello".utf8).write(to: URL(fileURLWithPath: "\(directory)/text"))
    let outcome = try culprit(["export"] + ["text", "cut", "good.stall", "gone"].map { "\(directory)/\($0)" })
    #expect(outcome.status == 1)
    #expect(outcome.error.split(separator: "\n").count == 3, "\(outcome.error)")
    #expect(outcome.out.contains("Catalog.rebuildIndex"))
    let path = "\(directory)/none.folded"
    let nothing = try culprit(["export", "-o", path, "\(directory)/text"])
    #expect(nothing.status == 1 && nothing.out == "")
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  /// No export must overwrite a recording.
  @Test(arguments: [[], ["--format=html"], ["--format=pprof"], ["--format=jsonl"]])
  func refusesToOverwriteRecordings(format: [String]) throws {
    for name in ["a.stall", "b.stall", "saved"] {
      try everyday.write(to: URL(fileURLWithPath: "\(directory)/\(name)"))
    }
    let manager = FileManager.default
    try manager.createSymbolicLink(atPath: "\(directory)/link.html", withDestinationPath: "saved")
    try manager.linkItem(atPath: "\(directory)/saved", toPath: "\(directory)/hard")
    // The expansion of `-o *.stall`, the input itself, a new name, another recording, and links.
    let calls = [
      (["a.stall", "b.stall"], "{} has the suffix of a recording"),
      (["a.stall", "a.stall"], "{} has the suffix of a recording"),
      (["new.STALL", "a.stall"], "{} has the suffix of a recording"),
      (["saved", "a.stall"], "refusing to overwrite the recording {}"),
      (["link.html", "a.stall"], "refusing to overwrite the recording {}"),
      (["hard", "saved"], "refusing to overwrite the recording {}"),
    ]
    for (names, reason) in calls {
      let paths = names.map { "\(directory)/\($0)" }
      let outcome = try culprit(["export", "-o"] + paths + format)
      #expect(outcome.status == 2 && outcome.out == "", "\(names) \(outcome)")
      #expect(outcome.error.hasPrefix("culprit: \(reason.replacing("{}", with: paths[0]))"), "\(names) \(outcome)")
    }
    for name in ["a.stall", "b.stall", "saved", "hard"] {
      #expect(try Data(contentsOf: URL(fileURLWithPath: "\(directory)/\(name)")) == everyday)
    }
    #expect(try manager.contentsOfDirectory(atPath: directory).count == 5)
    #expect(try manager.destinationOfSymbolicLink(atPath: "\(directory)/link.html") == "saved")
  }

  @Test func refusesToOverwriteInput() throws {
    let damaged = Data([0]) + everyday.dropFirst()
    try FileManager.default.createDirectory(atPath: "\(directory)/saved", withIntermediateDirectories: true)
    let found = "\(directory)/saved/a.stall"
    let other = "\(directory)/other"
    let link = "\(directory)/link"
    try damaged.write(to: URL(fileURLWithPath: found))
    try FileManager.default.linkItem(atPath: found, toPath: other)
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: other)
    for (out, input, read) in [
      (other, other, other), (other, found, found), (other, "\(directory)/saved", found), (link, other, other),
      (other, link, link),
    ] {
      let outcome = try culprit(["export", "-o", out, input])
      #expect(outcome.status == 2 && outcome.out == "", "\(outcome)")
      #expect(
        outcome.error.hasPrefix("culprit: refusing to overwrite \(out), which is also an input (\(read))"),
        "\(outcome)"
      )
    }
    func shell(_ script: String) throws -> ChildProcess {
      try ChildProcess("/bin/sh", ["-c", script, builtProgram("culprit").path, other], keepsErrors: true)
    }
    for script in [#""$0" export -o "$1" <"$1""#, #""$0" export -o "$1" - <"$1""#] {
      let outcome = try shell(script)
      #expect(outcome.status == 2 && outcome.errors.contains(", which is also an input (standard input)"), "\(outcome)")
    }
    let appended = try shell(#""$0" export "$1" >>"$1""#)
    #expect(
      appended.status == 2
        && appended.errors.contains("culprit: refusing to overwrite standard output, which is also an input ("),
      "\(appended)"
    )
    #expect(try Data(contentsOf: URL(fileURLWithPath: found)) == damaged)
  }

  @Test func leavesNoPartialOutput() throws {
    let input = "\(directory)/in.stall"
    try write(SampleRecordings.large(samples: 2000, stacks: 50), to: input)
    let asDirectory = try culprit(["export", "-o", directory, input])
    #expect(asDirectory.status == 1)
    #expect(asDirectory.error == "culprit: \(directory): it is a directory\n")
    let missing = try culprit(["export", "-o", "\(directory)/no/where", input])
    #expect(missing.status == 1)
    #expect(missing.error == "culprit: \(directory)/no/where: No such file or directory\n")
    let path = "\(directory)/kept.firefox.json"
    try Data("kept".utf8).write(to: URL(fileURLWithPath: path))
    let words = [
      "-c", "trap '' XFSZ; ulimit -f 8; \"$0\" export -o \"$1\" \"$2\"", builtProgram("culprit").path, path, input,
    ]
    let limited = try ChildProcess("/bin/sh", words, keepsErrors: true)
    #expect(limited.status == 1)
    #expect(limited.errors == "culprit: \(path): File too large\n")
    #expect(try String(contentsOfFile: path, encoding: .utf8) == "kept")
    #expect(
      try FileManager.default.contentsOfDirectory(atPath: directory).sorted() == ["in.stall", "kept.firefox.json"]
    )
  }

  @Test func reportsFullDiskButNotClosedPipe() throws {
    let input = "\(directory)/in.stall"
    try write(SampleRecordings.large(samples: 2000, stacks: 50), to: input)
    func shell(_ script: String) throws -> ChildProcess {
      try ChildProcess("/bin/sh", ["-c", script, builtProgram("culprit").path, input], keepsErrors: true)
    }
    for format in ["collapsed", "firefox", "pprof"] {
      let full = try shell("\"$0\" export -f \(format) \"$1\" >/dev/full")
      #expect(full.status == 1)
      #expect(full.errors == "culprit: cannot write to standard output: No space left on device\n")
      let closed = try shell("{ \"$0\" export -f \(format) \"$1\"; echo $? >&2; } | head -c 1 >/dev/null")
      #expect(closed.errors == "0\n")
    }
  }

  @Test func exportsHTMLPages() throws {
    let path = "\(directory)/x.html"
    let outcome = try culprit(["export", "-o", path], input: everyday)
    #expect(outcome.status == 0 && outcome.out == "" && outcome.error == "", "\(outcome)")
    let page = try String(contentsOfFile: path, encoding: .utf8)
    #expect(page.hasPrefix("<!DOCTYPE html>") && page.hasSuffix("</html>\n"))
    #expect(try culprit(["export", "--format=html"], input: everyday).out == page)
    #expect(try culprit(["export", "--format=html", "--raw"], input: everyday).status == 2)
    let missing = try culprit(["export", "-o", "\(directory)/nowhere/x.html"], input: everyday)
    #expect(missing.status == 1 && missing.error.contains("No such file or directory"))
  }

  @Test func opensReportInBrowser() throws {
    let stall = "\(directory)/x.stall"
    try write(SampleRecordings.everyday(), to: stall)
    var environment = [
      "PATH": "/usr/bin:/bin", "TMPDIR": directory, "BROWSER": "nosuchbrowser:cp %s \(directory)/seen",
    ]
    func open() throws -> ChildProcess {
      try ChildProcess(ChildProcess.built("culprit"), ["report", "--open", stall], environment: environment)
    }
    let shown = try open()
    #expect(shown.status == 0 && shown.errors == "", "\(shown)")
    let seen = try Data(contentsOf: URL(fileURLWithPath: "\(directory)/seen"))
    #expect(seen.starts(with: Data("<!DOCTYPE html>".utf8)))
    let page = try #require(shown.output.split(separator: " ").last).trimmingCharacters(in: .whitespacesAndNewlines)
    let attributes = try FileManager.default.attributesOfItem(atPath: page)
    #expect(attributes[.posixPermissions] as? Int == 0o600)
    environment["BROWSER"] = "false"
    let failed = try open()
    #expect(failed.status == 1 && failed.errors.contains("the browser \"false\" failed"), "\(failed)")
    environment = ["PATH": directory, "BROWSER": ""]
    let none = try open()
    #expect(none.status == 1 && none.errors.contains("there is no browser"), "\(none)")
    #expect(try culprit(["report", "--open", "--brief", stall]).status == 2)
  }
}

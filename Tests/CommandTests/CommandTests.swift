import CulpritOptions
import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@Suite(.ownThread) struct OptionTableTests {
  private let table = OptionTable(
    usage: ["tool [OPTION]... [FILE]..."],
    summary: "Does things.",
    options: [
      CommandOption("width", letter: "w", argument: "COLUMNS", help: "how wide"),
      CommandOption("all", letter: "a", help: "everything"), CommandOption("verbose", letter: "v", help: "more"),
      CommandOption("version", help: "the version"),
    ],
    epilogue: "Example."
  )

  @Test(arguments: [
    ["-w80", "file"], ["-w", "80", "file"], ["--width=80", "file"], ["--width", "80", "file"], ["file", "--wid", "80"],
    ["-w", "1", "--width=80", "--", "file"],
  ])
  func parsesAllArgumentForms(words: [String]) throws {
    let parsed = try table.parse(words)
    #expect(parsed.value("width") == "80")
    #expect(try parsed.number("width", in: 1...100) == 80)
    #expect(parsed.operands == ["file"])
  }

  @Test func parsesBundledLetters() throws {
    let parsed = try table.parse(["-avw", "7"])
    #expect(parsed.has("all") && parsed.has("verbose"))
    #expect(parsed.value("width") == "7")
  }

  @Test func parsesDashAndDoubleDash() throws {
    #expect(try table.parse(["-", "--", "-a", "--all"]).operands == ["-", "-a", "--all"])
  }

  @Test(arguments: [
    (["--nothing"], "unknown option --nothing"), (["-x"], "unknown option -x"),
    (["--ver"], "--ver is ambiguous: --verbose, --version"), (["--width"], "--width needs an argument: COLUMNS"),
    (["-w"], "-w needs an argument: COLUMNS"), (["--all=yes"], "--all takes no argument, but \"yes\" was given"),
  ])
  func rejectsInvalidOptions(words: [String], sentence: String) {
    let error = #expect(throws: UsageError.self) { try table.parse(words) }
    #expect(error?.description == sentence)
  }

  @Test(arguments: ["", "x", "0", "101", "8e1", " 8"])
  func rejectsInvalidNumbers(text: String) throws {
    let parsed = try table.parse(["--width=\(text)"])
    #expect(throws: UsageError.self) { try parsed.number("width", in: 1...100) }
  }

  @Test func listsAllOptionsInHelp() {
    #expect(
      table.help() == """
        Usage: tool [OPTION]... [FILE]...
        Does things.

        Options:
          -w, --width=COLUMNS   how wide
          -a, --all             everything
          -v, --verbose         more
              --version         the version
          -h, --help            print this help and exit

        Example.

        """
    )
  }
}

struct Outcome {
  var status: Int32
  var out: String
  var error: String
}

func culprit(_ arguments: [String], input: Data = Data()) throws -> Outcome {
  try run("culprit", arguments, input: input)
}

func run(_ program: String, _ arguments: [String], input: Data = Data()) throws -> Outcome {
  try run(builtProgram(program), arguments, input: input)
}

func run(_ program: URL, _ arguments: [String], input: Data = Data()) throws -> Outcome {
  let child = try ChildProcess(program.path, arguments, input: input, keepsErrors: true)
  return Outcome(status: child.status, out: child.output, error: child.errors)
}

func builtProgram(_ name: String) -> URL { URL(fileURLWithPath: ChildProcess.built(name)) }

@Suite(.ownThread) struct CulpritCommandTests {
  @TemporaryDirectory private var directory: String

  private func recording(_ name: String) -> Recording {
    Recording(
      process: ObservedProcess(1, "/opt/shop"),
      modules: [Module("/opt/shop/shop", [1], at: 0x1000..<0x2000)],
      stacks: [Stack(frames: [.programCounter(RuntimeAddress(0x1234))], end: .outermost)],
      stalls: [
        Stall(
          name,
          thread: (1, "t"),
          samples: [Sample(.seconds(1), 0)],
          duration: .seconds(2),
          hasEnded: true
        )
      ]
    )
  }

  private func write(_ name: String, to path: String) throws -> Data {
    let data = Data(StallFileWriter.file(of: recording(name)))
    try data.write(to: URL(fileURLWithPath: path))
    return data
  }

  @Test func readsFilesAndStandardInput() throws {
    let first = try write("alpha", to: "\(directory)/a.stall")
    _ = try write("beta", to: "\(directory)/b.stall")
    let outcome = try culprit(["report", "\(directory)/a.stall", "\(directory)/b.stall"])
    #expect(outcome.status == 0)
    #expect(outcome.error == "")
    #expect(outcome.out.contains("\"alpha\"") && outcome.out.contains("\"beta\""))
    for arguments in [["report"], ["report", "-"]] {
      let piped = try culprit(arguments, input: first)
      #expect(piped.status == 0)
      #expect(piped.out.hasPrefix("STALL     event loop \"alpha\" was stuck for 2.00 s, limit 1.00 s"))
    }
  }

  @Test func reportsMissingExecutables() throws {
    let outcome = try culprit(["report", "--width=200"], input: Data(StallFileWriter.file(of: recording("x"))))
    #expect(outcome.status == 0)
    #expect(outcome.out.contains("no name in /opt/shop/shop: cannot open /opt/shop/shop: No such file or directory"))
    #expect(outcome.out.contains("shop+0x234"))
  }

  @Test func supportsReportStyles() throws {
    let data = Data(StallFileWriter.file(of: recording("x")))
    let brief = try culprit(["report", "--brief"], input: data)
    #expect(brief.out.hasPrefix("1970-01-01T00:00:00.000Z shop[1] event loop \"x\" was stuck for 2.00 s"), "\(brief)")
    #expect(brief.out.split(separator: "\n", omittingEmptySubsequences: false).count == 2)
    #expect(try culprit(["report", "--full"], input: data).out.contains("LAST SEEN"))
    #expect(try culprit(["report", "--color=always"], input: data).out.hasPrefix("\u{1b}[1mSTALL"))
    #expect(try !culprit(["report"], input: data).out.contains("\u{1b}"))
    let ascii = try culprit(["report", "--ascii"], input: data).out
    #expect(ascii.utf8.allSatisfy { $0 < 0x80 } && !ascii.isEmpty)
    for arguments in [["report", "--color=red"], ["report", "--brief", "--full"]] {
      let refused = try culprit(arguments, input: data)
      #expect(refused.status == 2 && refused.out == "", "\(refused)")
    }
  }

  @Test func printsReportsAsJSON() throws {
    for name in ["a", "b"] { _ = try write(name, to: "\(directory)/\(name).stall") }
    let outcome = try culprit([
      "report", "--format=json", "\(directory)/a.stall", "\(directory)/none", "\(directory)/b.stall",
    ])
    #expect(outcome.status == 1 && outcome.error.contains("none"), "\(outcome)")
    let reports = try outcome.out.split(separator: "\n").map {
      try #require(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
    }
    #expect(reports.map { ($0["source"] as? [String: Any])?["name"] as? String } == ["a", "b"])
    #expect(reports.allSatisfy { $0["version"] as? Int == 1 })
    for arguments in [["--format=json", "--brief"], ["--format=xml"], ["--format=json", "--width=80"]] {
      let refused = try culprit(["report"] + arguments, input: Data())
      #expect(refused.status == 2 && refused.out == "" && refused.error.contains("--format"), "\(refused)")
    }
  }

  @Test func usesColorAndPagerOnTerminal() throws {
    _ = try write("x", to: "\(directory)/a.stall")
    func onTerminal(_ settings: String, _ options: String = "") throws -> String {
      let report = "'\(builtProgram("culprit").path)' report \(options) '\(directory)/a.stall'"
      let command = "env -u NO_COLOR \(settings) \(report)"
      let words = ["-qec", command, "/dev/null"]
      let child = try ChildProcess("/usr/bin/script", words)
      #expect(child.hasExited && child.status == 0, "\(child)")
      return child.output
    }
    let paged = try onTerminal("TERM=xterm PAGER=\"sed 's/^/> /'\"")
    #expect(paged.contains("> ") && paged.contains("\u{1b}[1mSTALL"), "\(paged)")
    #expect(paged.split(separator: "\n").allSatisfy { $0.hasPrefix("> ") }, "\(paged)")
    let plain = try onTerminal("TERM=xterm NO_COLOR=1 PAGER=cat")
    #expect(plain.hasPrefix("STALL") && !plain.contains("\u{1b}"), "\(plain)")
    let without = try onTerminal("TERM=dumb PAGER='sed s/^/.../'", "--no-pager")
    #expect(without.hasPrefix("STALL"), "\(without)")
    #expect(try onTerminal("TERM=dumb PAGER=/nowhere/less").hasPrefix("STALL"))
    #expect(try onTerminal("TERM=dumb PAGER=true").isEmpty)
    #expect(try onTerminal("TERM=dumb PAGER=cat LC_ALL=C", "--full").utf8.allSatisfy { $0 < 0x80 })
  }

  @Test(arguments: ["--help", "help"] + ["report", "top", "diff", "export", "symbolize", "info", "man", "completion"])
  func adaptsHelpToLocale(command: String) throws {
    func help(_ locale: String) throws -> String {
      let arguments = command.hasPrefix("--") ? [command] : [command, "--help"]
      let words = ["LC_ALL=" + locale, builtProgram("culprit").path] + arguments
      let child = try ChildProcess("/usr/bin/env", words)
      #expect(child.hasExited && child.status == 0, "\(child)")
      return child.output
    }
    let (plain, other) = (try help("C"), try help("C.UTF-8"))
    #expect(plain.utf8.allSatisfy { $0 < 0x80 } && plain.contains("Usage: culprit"), "\(plain)")
    if ["--help", "top", "diff"].contains(command) { #expect(other.contains("…"), "\(other)") }
  }

  @Test func respectsWidthOption() throws {
    let data = Data(StallFileWriter.file(of: recording("x")))
    let narrow = try culprit(["report", "-w", "60"], input: data)
    let wide = try culprit(["report", "--width=120"], input: data)
    #expect(narrow.out != wide.out)
    #expect(try culprit(["report", "--width=10"], input: data).status == 2)
  }

  @Test func continuesAfterBadFiles() throws {
    let whole = try write("good", to: "\(directory)/good.stall")
    try Data().write(to: URL(fileURLWithPath: "\(directory)/empty"))
    try Data("#!/bin/sh\necho hello world".utf8).write(to: URL(fileURLWithPath: "\(directory)/script"))
    try whole.prefix(whole.count - 5).write(to: URL(fileURLWithPath: "\(directory)/cut"))
    let names = ["empty", "script", "cut", "missing", "good.stall"].map { "\(directory)/\($0)" }
    for command in ["report", "info"] {
      let outcome = try culprit([command] + names)
      #expect(outcome.status == 1)
      let lines = outcome.error.split(separator: "\n")
      try #require(lines.count == 4, "\(outcome)")
      #expect(lines[0] == "culprit: \(directory)/empty: is empty; a .stall file has at least 16 bytes")
      #expect(lines[1].contains("is not a .stall file: it begins with 23212f62696e2f73, not 43554c505249540a"))
      #expect(lines[2].contains("the file ends inside a record"))
      #expect(lines[3].hasSuffix("missing: No such file or directory"))
      #expect(outcome.out.components(separatedBy: "\"good\"").count == 3)
    }
  }

  @Test func reportsDirectoryNewestFirst() throws {
    let empty = try culprit(["report", directory])
    #expect(empty.status == 1)
    #expect(empty.error == "culprit: no saved stalls in \(directory)\n")
    _ = try write("older", to: "\(directory)/culprit-20261120T100000.000Z-7-1.stall")
    _ = try write("newer", to: "\(directory)/culprit-20261120T110000.000Z-7-2.stall")
    let outcome = try culprit(["report", directory])
    #expect(outcome.status == 0, "\(outcome)")
    let places = ["\"newer\"", "\"older\""].map { outcome.out.range(of: $0)?.lowerBound }
    let (newer, older) = (try #require(places[0]), try #require(places[1]))
    #expect(newer < older)
  }

  @Test(.enabled(if: getuid() != 0, "root can read any file")) func reportsUnreadableFiles() throws {
    _ = try write("x", to: "\(directory)/x")
    chmod("\(directory)/x", 0)
    let outcome = try culprit(["report", "\(directory)/x"])
    #expect(outcome.status == 1)
    #expect(outcome.error == "culprit: \(directory)/x: Permission denied\n")
  }

  @Test func survivesTruncationAtAnyByte() throws {
    let whole = Data(StallFileWriter.file(of: recording("cut")))
    for length in stride(from: 0, to: whole.count, by: 23) {
      let outcome = try culprit(["info"], input: whole.prefix(length))
      #expect(outcome.status == 0 || outcome.status == 1)
      #expect(outcome.status == 0 || outcome.error.hasPrefix("culprit: standard input: "))
    }
  }

  @Test func printsFileSummary() throws {
    let outcome = try culprit(["info", "--modules"], input: Data(StallFileWriter.file(of: recording("x"))))
    #expect(outcome.status == 0)
    #expect(
      outcome.out == """
        standard input: .stall format 1.0, 7 records
          process   1 /opt/shop (x86_64), watched since 1970-01-01T00:00:00.000Z by culprit 0.1.0
          modules   1, 1 of them with a build-id
            /opt/shop/shop  01
              0x1000-0x2000 from byte 0
          stacks    1 distinct
          stall 1   event loop "x", thread 1 "t", 2.00 s, limit 1.00 s, samples: 1, ended

        """
    )
  }

  @Test func helpAndVersionSucceed() throws {
    for arguments in [["--help"], ["-h"], ["report", "--help"], ["info", "-h"]] {
      let outcome = try culprit(arguments)
      #expect(outcome.status == 0)
      #expect(outcome.out.hasPrefix("Usage: culprit") && outcome.out.contains("Example"))
    }
    #expect(try culprit(["--version"]).out == "culprit 0.1.0\n")
  }

  @Test(arguments: [
    [], ["nothing"], ["--nothing"], ["report", "--nothing"], ["report", "--width=x"], ["info", "-z"],
  ])
  func exitsWithTwoOnUsageError(arguments: [String]) throws {
    let outcome = try culprit(arguments)
    #expect(outcome.status == 2)
    #expect(outcome.out == "")
    #expect(outcome.error.hasSuffix(" --help\".\n"))
  }

  @Test(arguments: [
    ["report", ""], ["top", ""], ["info", ""], ["diff", "", ""], ["export", ""], ["export", "-o", ""],
    ["export", "-fhtml", "-o", ""], ["export", "-fjsonl", "-o", ""], ["symbolize", "-o", ""],
    ["symbolize", "-o", "-", ""], ["man", "--output="], ["symbolize", "-e", "", "0"],
  ])
  func rejectsEmptyFileNames(words: [String]) throws {
    let outcome = try culprit(words, input: Data(StallFileWriter.file(of: recording("x"))))
    let sentence = (words.contains("-e") ? "cannot open " : "") + "\"\": No such file or directory"
    #expect(outcome.status == 1 && outcome.out == "", "\(outcome)")
    let lines = outcome.error.split(separator: "\n")
    #expect(Set(lines) == ["culprit: \(sentence)"], "\(outcome)")
  }

  @Test func reportsOutputWriteErrors() throws {
    let words = ["-c", "\"$0\" --help > /dev/full", builtProgram("culprit").path]
    let child = try ChildProcess("/bin/sh", words, keepsErrors: true)
    #expect(child.hasExited && child.status == 1)
    #expect(child.errors == "culprit: cannot write to standard output: No space left on device\n")
  }
}

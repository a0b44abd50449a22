import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct DirectoryTests {
  @TemporaryDirectory private var directory: String

  /// Runs the service `scenario` on the directory, calls `body` while the service runs, and then sends `signal`.
  private func service(
    _ scenario: String,
    _ directory: String,
    signal: Int32 = 0,
    _ body: (pid_t) throws -> Void = { _ in }
  ) throws {
    _ = try ChildProcess(ChildProcess.built("blackbox-process"), [directory, scenario]) { process in
      defer { if signal != 0 { kill(process, signal) } }
      try body(process)
    }
  }

  /// Waits for a saved stall with all other threads and some samples. Returns the path of its file.
  private func stall(_ directory: String, of process: pid_t) -> String {
    while !isOver(process) {
      if let name = fileNames(in: directory, ".stall").first(where: { $0.contains("-\(process)-") }),
        let data = FileManager.default.contents(atPath: "\(directory)/\(name)"),
        let stall = try? StallFile(bytes: [UInt8](data)).recording.stalls.first, stall.others?.isComplete == true,
        stall.samples.count >= 12
      {
        return "\(directory)/\(name)"
      }
      usleep(10_000)
    }
    return ""
  }

  private func waitForRun(_ directory: String, of process: pid_t) {
    while !fileNames(in: directory, ".run").contains(where: { $0.contains("-\(process).") }) && !isOver(process) {
      usleep(10_000)
    }
  }

  /// The stall of a running or stopped service must be reported from its file. A stopped service answers no request.
  @Test(arguments: [false, true]) func reportsOngoingStalls(isStopped: Bool) throws {
    try service("stall", directory, signal: SIGKILL) { process in
      let file = stall(directory, of: process)
      if isStopped {
        kill(process, SIGSTOP)
        while try !String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8).contains(") T ") { usleep(1000) }
      }
      for path in [file, directory] {
        let report = try culprit(["report", "--width=200", path])
        #expect(report.status == 0 && report.error == "", "\(report)")
        #expect(report.out.contains("no end recorded"), "\(report)")
        #expect(report.out.contains("\nCULPRIT   holdUp(_:)"), "\(report)")
      }
      let info = try culprit(["info", file])
      #expect(info.status == 0 && info.out.contains("other threads: "), "\(info)")
      #expect(info.out.hasSuffix("no end recorded\n"), "\(info)")
      let listed = try culprit(["info", directory])
      #expect(listed.status == 0 && listed.error == "", "\(listed)")
      let lines = listed.out.split(separator: "\n")
      try #require(lines.count == 3, "\(listed)")
      #expect(lines[0].contains(": process \(process) "))
      #expect(lines[1] == "  running")
      #expect(lines[2].hasSuffix(", going on"))
    }
  }

  @Test func listsEndOfEachRun() throws {
    try service("stop", directory)
    try service("turn", directory, signal: SIGKILL) { waitForRun(directory, of: $0) }
    try service("stall", directory, signal: SIGKILL) { _ = stall(directory, of: $0) }
    try service("recover", directory)
    try service("fault", directory)
    let ends = [
      "ended     crash: signal 11", "ended     clean exit", "ended     fatal hang: ended while work was stuck",
      "ended     killed, or ended by _exit, while nothing was stuck", "ended     clean exit",
    ]
    func found(_ outcome: Outcome) -> [String] {
      outcome.out.split(separator: "\n").filter { $0.hasPrefix("  ") && !$0.contains("stall ") }
        .map { String($0.dropFirst(2)) }
    }
    try service("turn", directory, signal: SIGKILL) { process in
      waitForRun(directory, of: process)
      let info = try culprit(["info", directory])
      #expect(info.status == 0 && info.error == "", "\(info)")
      #expect(found(info) == ["running"] + ends, "\(info)")
      let stalls = info.out.split(separator: "\n").filter { $0.hasPrefix("  stall ") }
      #expect(stalls.count == 2, "\(info)")
      #expect(stalls.first?.hasSuffix(", ended") == true && stalls.last?.hasSuffix("no end recorded") == true)
      let report = try culprit(["report", directory])
      #expect(report.status == 0 && report.out.components(separatedBy: "CULPRIT   holdUp(_:)").count == 3, "\(report)")
    }
    try service("report", directory)
    let info = try culprit(["info", directory])
    let expected = ["ended     killed, or ended by _exit, while nothing was stuck"] + ends
    #expect(found(info) == ["ended     clean exit"] + expected.map { $0 + "; reported" }, "\(info)")
  }

  @Test func reportsEmptyDirectory() throws {
    try Data("theirs".utf8).write(to: URL(fileURLWithPath: "\(directory)/others.txt"))
    for (command, what) in [("info", "no records of runs"), ("report", "no saved stalls")] {
      let outcome = try culprit([command, directory])
      #expect(outcome.status == 1 && outcome.out == "")
      #expect(outcome.error == "culprit: \(what) in \(directory)\n")
    }
  }

  /// Root runs this test without the capabilities that bypass permissions.
  @Test func reportsUnreadableFiles() throws {
    for name in ["closed", "listed", "open"] {
      try FileManager.default.createDirectory(atPath: "\(directory)/\(name)", withIntermediateDirectories: true)
      try service("recover", "\(directory)/\(name)")
    }
    let (run, stall) = (
      fileNames(in: "\(directory)/listed", ".run")[0], fileNames(in: "\(directory)/listed", ".stall")[0]
    )
    chmod("\(directory)/closed", 0)
    chmod("\(directory)/listed", 0o400)
    defer { for name in ["closed", "listed"] { chmod("\(directory)/\(name)", 0o700) } }
    func culpritWithoutPrivileges(_ words: [String], input: Data = Data()) throws -> Outcome {
      guard getuid() == 0 else { return try culprit(words, input: input) }
      let without = ["--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search", builtProgram("culprit").path]
      return try CommandTests.run(URL(fileURLWithPath: "/usr/bin/setpriv"), without + words, input: input)
    }
    for (command, files, marker) in [("info", [run, stall], "ended     clean exit"), ("report", [stall], "CULPRIT")] {
      let outcome = try culpritWithoutPrivileges([command] + ["closed", "listed", "open"].map { "\(directory)/\($0)" })
      #expect(outcome.status == 1)
      let sentences = (["closed"] + files.map { "listed/\($0)" }).map {
        "culprit: \(directory)/\($0): Permission denied\n"
      }
      #expect(outcome.error == sentences.joined(), "\(outcome)")
      #expect(outcome.out.components(separatedBy: marker).count == 2, "\(outcome)")
    }
    // Standard input must not be read instead.
    let saved = try #require(
      FileManager.default.contents(atPath: "\(directory)/open/\(fileNames(in: "\(directory)/open", ".stall")[0])")
    )
    for command in ["info", "report"] {
      let outcome = try culpritWithoutPrivileges([command, "\(directory)/closed"], input: saved)
      #expect(outcome.status == 1 && outcome.out == "")
      #expect(outcome.error == "culprit: \(directory)/closed: Permission denied\n", "\(outcome)")
    }
  }

  @Test func reportsForeignAndDamagedFiles() throws {
    try service("recover", directory)
    let good = fileNames(in: directory, ".stall")[0]
    let data = try #require(FileManager.default.contents(atPath: "\(directory)/\(good)"))
    func path(_ number: Int, _ suffix: String) -> String {
      "\(directory)/culprit-20260101T00000\(number).000Z-7\(suffix == "stall" ? "-1" : "").\(suffix)"
    }
    var paths: [[String]] = []
    for (index, suffix) in ["run", "stall"].enumerated() {
      let numbers = (0...4).map { path($0 + 5 * index, suffix) }
      try #require(symlink("\(directory)/\(good)", numbers[0]) == 0)
      try #require(mkfifo(numbers[1], 0o600) == 0)
      try #require(mkdir(numbers[2], 0o700) == 0)
      try Data().write(to: URL(fileURLWithPath: numbers[3]))
      try Data("Dear diary,\u{1B}[2J\n".utf8).write(to: URL(fileURLWithPath: numbers[4]))
      paths.append(numbers)
    }
    let cut = "\(directory)/culprit-20260102T000000.000Z-8-1.stall"
    try data.dropLast(3).write(to: URL(fileURLWithPath: cut))
    let (runs, stalls) = (paths[0], paths[1])

    let info = try culprit(["info", directory])
    #expect(info.status == 1)
    for path in runs.prefix(3) + stalls.prefix(3) {
      #expect(info.error.contains("culprit: \(path): it is a symbolic link, or missing\n"), "\(info)")
    }
    for path in runs.suffix(2) {
      #expect(info.error.contains("culprit: \(path): it is not the record of a run, or it is damaged\n"), "\(info)")
    }
    let report = try culprit(["report", directory])
    #expect(report.status == 1)
    #expect(report.error.contains("culprit: \(stalls[0]): it is a symbolic link\n"), "\(report)")
    for path in stalls[1...2] {
      #expect(report.error.contains("culprit: \(path): not a regular file\n"), "\(report)")
    }
    for outcome in [info, report] {
      #expect(outcome.error.contains("culprit: \(stalls[3]): is empty; a .stall file has at least 16 bytes\n"))
      #expect(outcome.error.contains("culprit: \(stalls[4]): is not a .stall file"))
      #expect(outcome.error.contains("culprit: \(cut): at byte "))
      #expect(!(outcome.error + outcome.out).contains("\u{1B}"))
    }
    #expect(info.error.split(separator: "\n").count == 11, "\(info)")
    #expect(report.error.split(separator: "\n").count == 6, "\(report)")
    #expect(
      info.out.split(separator: "\n").map { $0.prefix(12) }.dropFirst() == [
        "  ended     ", "  stall     ", "  stall     ",
      ]
    )
    #expect(report.out.components(separatedBy: "CULPRIT   holdUp(_:)").count == 3, "\(report)")

    try FileManager.default.removeItem(atPath: "\(directory)/\(fileNames(in: directory, ".run").last ?? "")")
    let others = try culprit(["info", directory])
    #expect(others.out.hasPrefix("of runs whose files are gone:\n  stall     \(good), "), "\(others)")
  }
}

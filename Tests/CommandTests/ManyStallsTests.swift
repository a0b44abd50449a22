import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@Suite(.ownThread) struct ManyStallsTests {
  @TemporaryDirectory private var directory: String
  private static let hostile = "a\u{1b}[2J\"\\\nb\u{202e}" + String(repeating: "std::pair<int, ", count: 700)

  /// Saves a stall of `function` that began `hours` after 2026-11-20T10:00:00Z. Returns the file's path.
  @discardableResult private func save(
    _ number: Int,
    _ function: String,
    seconds: Int = 2,
    hours: Int = 0,
    host: String = "web-1",
    build: UInt8 = 1,
    label: String = "",
    in directory: String
  ) throws -> String {
    let (address, start) = (RuntimeAddress(0x1000 + UInt64(build)), UInt64(build))
    let place = CulpritStallRecord.SourceLocation(file: "/src/Store.swift", line: 10 * Int(build))
    let frame = ResolvedFrame(
      function,
      raw: "raw",
      swiftModule: "Shop",
      in: "/opt/shop",
      start: start,
      at: start,
      place
    )
    let recording = Recording(
      process: ObservedProcess(7, "/opt/shop", host: host),
      modules: [Module("/opt/shop", [0xab, build], at: 0x1000..<0x2000)],
      stacks: [Stack(frames: [.programCounter(address)], end: .outermost)],
      stalls: [
        Stall(
          host == "web-1" ? "http" : "admin",
          id: UInt64(number),
          thread: (7, "shop"),
          began: WallTime(nanosecondsSince1970: 1_795_168_800_000_000_000 + UInt64(hours) * 3_600_000_000_000),
          samples: [Sample(.seconds(1), 0, .running), Sample(.seconds(2), 0, .running, label: label)],
          duration: .seconds(seconds),
          hasEnded: true
        )
      ],
      names: [address: [frame]]
    )
    let path = "\(directory)/culprit-20261120T\(10 + hours)0000.000Z-7-\(number).stall"
    try Data(StallFileWriter.file(of: recording)).write(to: URL(fileURLWithPath: path))
    return path
  }

  private func json(_ outcome: Outcome) throws -> [String: Any] {
    try #require(JSONSerialization.jsonObject(with: Data(outcome.out.utf8)) as? [String: Any], "\(outcome)")
  }

  private func groups(_ outcome: Outcome) throws -> [[String: Any]] {
    try #require(json(outcome)["groups"] as? [[String: Any]])
  }

  @Test func groupsProblemsAcrossBuildsAndHosts() throws {
    try FileManager.default.createDirectory(atPath: "\(directory)/b", withIntermediateDirectories: true)
    try save(1, "closure #1 in load()", in: directory)
    try save(2, "closure #2 in load()", seconds: 5, hours: 1, build: 2, in: directory)
    let store = try save(3, "store()", seconds: 4, hours: 2, in: directory)
    try save(1, "closure #1 in load()", hours: 3, host: "web-2", in: "\(directory)/b")
    let outcome = try culprit(["top", directory, "\(directory)/b", store])
    #expect(outcome.status == 0 && outcome.error == "", "\(outcome)")
    let lines = outcome.out.split(separator: "\n")
    try #require(lines.count == 4, "\(outcome)")
    #expect(lines[0] == "4 stalls of 2 kinds, 13.00 s, from 2026-11-20T10:00:00.000Z to 2026-11-20T13:00:00.000Z")
    #expect(lines[2].hasPrefix("    3  9.00 s  5.00 s  2026-11-20T13:00:00.000Z  computing  "))
    #expect(lines[2].hasSuffix("  closure #1 in load() (Store.swift:10)  event loop \"http\" of shop and 1 more"))
    #expect(lines[3].hasPrefix("    1  4.00 s  4.00 s  2026-11-20T12:00:00.000Z"))

    let group = try #require(try groups(culprit(["top", "--format=json", "-n1", directory, "\(directory)/b"])).first)
    #expect(group["count"] as? Int == 3 && group["totalSeconds"] as? Double == 9)
    let versions = try #require(group["versions"] as? [[String: Any]])
    #expect(versions.map { $0["name"] as? String } == ["ab01", "ab02"])
    let signature = try #require(group["key"] as? String)
    let reports = try culprit(["report", "--signature=\(signature.prefix(6))", directory, "\(directory)/b"])
    #expect(reports.status == 0 && reports.out.components(separatedBy: "CULPRIT   closure in load()").count == 4)
    #expect(!reports.out.contains("store()"))
    for digits in [signature, signature.uppercased()] {
      #expect(try groups(culprit(["top", "--format=json", "--signature=\(digits)", directory])).count == 1)
    }
    let renamed = "\(directory)/newest.stall"
    try FileManager.default.moveItem(atPath: "\(directory)/b/culprit-20261120T130000.000Z-7-1.stall", toPath: renamed)
    let all = try culprit(["report", "--brief", directory])
    let hours = all.out.matches(of: /2026-11-20T(\d\d)/).map { String($0.1) }
    #expect(all.status == 0 && hours == ["12", "11", "10", "13"], "\(all)")
    try FileManager.default.moveItem(atPath: renamed, toPath: "\(directory)/b/culprit-20261120T130000.000Z-7-1.stall")
    let times = reports.out.split(separator: "\n").filter { $0.contains("2026-11-20T") }.map { String($0.suffix(24)) }
    #expect(times.count == 3 && times == times.sorted().reversed(), "\(times)")
  }

  @Test(arguments: [
    ([], 3), (["--since=2026-11-20T11:00:00Z"], 2), (["--until=2026-11-20T12:00:00+01:00"], 1),
    (["--since=2026-11-21"], 0),
    (["--since", "2026-11-20", "--until", "2026-11-20T12:00:00Z"], 2), (["--host=web-2"], 1), (["--source=http"], 2),
    (["--source=loop"], 3), (["--source=queue"], 0), (["--service=shop", "--host=web-1", "--host=web-2"], 3),
    (["--build=ab01"], 2), (["--build=AB0", "--host=web-1"], 2), (["--build=ab02", "--build=unknown"], 1),
    (["--build=unknown"], 0), (["--label=GET /orders"], 1), (["--label=GET"], 0),
    (["--label=x", "--label=GET /orders", "--build=ab02"], 0), (["--label=x", "--label=GET /orders", "--build=ab"], 1),
    (["--service=mail"], 0), (["--until=9999-12-31", "--since=1969-01-01"], 3), (["--since=9999-12-31"], 0),
  ])
  func filtersStalls(words: [String], count: Int) throws {
    try save(1, "load()", in: directory)
    try save(2, "load()", hours: 1, host: "web-2", label: "GET /orders", in: directory)
    try save(3, "load()", hours: 2, build: 2, in: directory)
    let outcome = try culprit(["top", "--format=json", directory] + words)
    #expect(try json(outcome)["count"] as? Int == count, "\(outcome)")
    #expect(outcome.status == 0)
    let report = try culprit(["report", directory] + words)
    #expect(report.out.components(separatedBy: "STALL     ").count == count + 1)
    let rows = try culprit(["export", "--format=jsonl", directory] + words)
    #expect(rows.out.split(separator: "\n").count == 2 * count)
  }

  @Test(arguments: [
    (["--source=https"], "sources \"http\", \"admin\"; kind \"loop\""), (["--service=mail"], "service \"shop\""),
    (["--host=web", "--since=2026-11-20"], "hosts \"web-1\", \"web-2\"; \(times)"), (["--until=2026-11-20"], times),
    (["--since=2026-11-21"], times),
    (["--build=1"], "build \"ab01\""), (["--label=GET /"], "labels \"GET /orders\", \"a\""),
    (["--source=http", "--signature=0"], "sources \"http\", \"admin\"; kind \"loop\"; *"),
  ])
  func listsAvailableValuesWhenNothingMatches(words: [String], offered: String) throws {
    try save(1, "load()", label: "GET /orders", in: directory)
    try save(2, "load()", hours: 1, host: "web-2", label: "a", in: directory)
    try save(3, "load()", hours: 2, label: "GET /orders", in: directory)
    var sentence = "the options exclude all 3 stalls; \(offered)"
    if offered.hasSuffix("*") {
      let signature = try #require(try groups(culprit(["top", "--format=json", directory])).first?["key"] as? String)
      #expect(!signature.hasPrefix("0"))
      sentence = String(sentence.dropLast()) + "signature \"\(signature)\""
    }
    for command in [
      ["report"], ["report", "--brief"], ["report", "--format=json"], ["top"], ["top", "--format=json"],
    ] {
      let outcome = try culprit(command + [directory] + words)
      #expect(outcome.status == 0 && outcome.error == "culprit: \(sentence)\n", "\(command) \(outcome)")
      if command[0] == "report" { #expect(outcome.out == "") }
    }
    let one = "\(directory)/culprit-20261120T100000.000Z-7-1.stall"
    let compared = try culprit(["diff", directory, one] + words)
    let lines = compared.error.split(separator: "\n")
    try #require(compared.status == 0 && lines.count == 2, "\(compared)")
    #expect(lines[0] == "culprit: \(directory): \(sentence)")
    #expect(lines[1].hasPrefix("culprit: \(one): the options exclude the only stall; "))
    for format in ["html", "collapsed", "pprof", "firefox", "chrome", "otlp", "jsonl"] {
      let outcome = try culprit(["export", "-f", format, "-o", "\(directory)/out", directory] + words)
      #expect(outcome.status == 1 && outcome.out == "", "\(format) \(outcome)")
      #expect(outcome.error == "culprit: \(sentence)\n", "\(format) \(outcome)")
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: directory).count == 3)
  }

  @Test func selectsStallsOfUnknownHost() throws {
    try save(1, "load()", in: directory)
    try save(2, "load()", hours: 1, host: "", in: directory)
    let hosts = try groups(culprit(["top", "--by=host", "--format=json", directory])).map { $0["key"] as? String }
    #expect(Set(hosts) == ["web-1", "unknown"])
    #expect(try culprit(["top", "--by=host", directory]).out.contains("  unknown  "))
    let chosen = try groups(culprit(["top", "--by=host", "--format=json", "--host=unknown", directory]))
    #expect(chosen.map { $0["key"] as? String } == ["unknown"] && chosen[0]["count"] as? Int == 1)
    #expect(try culprit(["export", "--format=jsonl", "--host=unknown", directory]).out.contains(#""host":"unknown""#))
    let none = try culprit(["top", "--host=web", directory])
    #expect(none.error.contains("hosts \"unknown\", \"web-1\""), "\(none)")
  }

  private static let times = "they began from 2026-11-20T10:00:00.000Z to 2026-11-20T12:00:00.000Z"

  @Test func reportsFileWithoutStalls() throws {
    let path = "\(directory)/header.stall"
    try Data(StallFileWriter.file(of: Recording(process: nil))).write(to: URL(fileURLWithPath: path))
    let sentence = "\(path): no stalls\n"
    let reported = try culprit(["report", "--host=web", path])
    #expect(reported.status == 0 && reported.out == sentence && reported.error == "", "\(reported)")
    for (command, status) in [
      (["report", "--format=json"], Int32(0)), (["top"], 0), (["diff", path], 0), (["export"], 1),
      (["export", "--format=html"], 1), (["export", "--format=jsonl"], 1),
    ] {
      let outcome = try culprit(command + ["--host=web", path])
      let count = command[0] == "diff" ? 2 : 1
      #expect(outcome.status == status, "\(command) \(outcome)")
      #expect(outcome.error == String(repeating: "culprit: \(sentence)", count: count), "\(command) \(outcome)")
    }
  }

  @Test func comparesRuns() throws {
    for name in ["before", "after"] {
      try FileManager.default.createDirectory(atPath: "\(directory)/\(name)", withIntermediateDirectories: true)
      _ = try ChildProcess(ChildProcess.built("blackbox-process"), ["\(directory)/\(name)", "recover"])
    }
    let same = try culprit(["diff", "\(directory)/before", "\(directory)/after"])
    #expect(same.status == 0 && same.error == "", "\(same)")
    let lines = same.out.split(separator: "\n")
    try #require(lines.count == 4, "\(same)")
    #expect(lines[0].hasPrefix("before: 1 stall of 1 kind, ") && lines[0].hasSuffix(" of watching"))
    #expect(lines[3].contains(" an hour") && lines[3].contains("  1 → 1  ") && lines[3].contains("  holdUp(_:) ("))

    let load = try save(1, "load()", in: directory)
    let store = try save(2, "store()", seconds: 5, in: directory)
    let changed = try json(culprit(["diff", "--format=json", load, store]))
    let entries = try #require(changed["entries"] as? [[String: Any]])
    #expect(changed["isPerHour"] as? Bool == false)
    #expect(entries.map { $0["change"] as? String } == ["new", "gone"])
    #expect(entries.map { $0["differenceSeconds"] as? Double } == [5, -2])
    let calm = "\(directory)/calm"
    try FileManager.default.createDirectory(atPath: calm, withIntermediateDirectories: true)
    let record = try #require(
      try FileManager.default.contentsOfDirectory(atPath: "\(directory)/after").first { $0.hasSuffix(".run") }
    )
    try FileManager.default.copyItem(atPath: "\(directory)/after/\(record)", toPath: "\(calm)/\(record)")
    let gone = try culprit(["diff", load, calm])
    #expect(gone.status == 0 && gone.out.contains("after:  0 stalls of 0 kinds, 0 ms, in "), "\(gone)")
    #expect(gone.out.contains("gone    −2.00 s") && gone.out.contains("\ntotals as they are, not by the hour: "))
  }

  @Test func reportsIncomparableInputs() throws {
    let load = try save(1, "load()", in: directory)
    for name in ["empty", "bad"] {
      try FileManager.default.createDirectory(atPath: "\(directory)/\(name)", withIntermediateDirectories: true)
    }
    try Data("hello".utf8).write(to: URL(fileURLWithPath: "\(directory)/bad/x.stall"))
    let cases = [
      ("\(directory)/empty", "no saved stalls in \(directory)/empty"),
      ("/etc", "no saved stalls in /etc"),
      ("\(directory)/missing", "\(directory)/missing: No such file or directory"),
      ("\(directory)/bad", "\(directory)/bad/x.stall: is not a .stall file"),
      ("\(directory)/bad/x.stall", "\(directory)/bad/x.stall: is not a .stall file"),
    ]
    for (side, sentence) in cases {
      for sides in [[load, side], [side, load], [side, side]] {
        for format in [[], ["--format=json"]] {
          let outcome = try culprit(["diff"] + format + sides)
          #expect(outcome.status == 1 && outcome.out == "", "\(outcome)")
          let errors = outcome.error.split(separator: "\n")
          #expect(errors.count == (sides[0] == sides[1] ? 2 : 1), "\(outcome)")
          #expect(errors.allSatisfy { $0.hasPrefix("culprit: \(sentence)") }, "\(outcome)")
        }
      }
      if !side.contains("missing") { #expect(try culprit(["top", side]).error.contains(sentence)) }
    }
  }

  @Test func findsRenamedStallFiles() throws {
    for name in ["before", "after"] {
      try FileManager.default.createDirectory(atPath: "\(directory)/\(name)", withIntermediateDirectories: true)
      let path = try save(1, "load()", seconds: name == "after" ? 5 : 2, in: "\(directory)/\(name)")
      try FileManager.default.moveItem(atPath: path, toPath: "\(directory)/\(name)/yesterday.stall")
    }
    let changed = try json(culprit(["diff", "--format=json", "\(directory)/before", "\(directory)/after"]))
    let entries = try #require(changed["entries"] as? [[String: Any]])
    #expect(entries.map { $0["change"] as? String } == ["worse"])
    #expect(entries.map { $0["differenceSeconds"] as? Double } == [3])
    try save(2, "load()", hours: 1, in: "\(directory)/after")
    let info = try culprit(["info", "\(directory)/after"])
    #expect(info.status == 0 && info.error == "", "\(info)")
    #expect(
      info.out == """
        of runs whose files are gone:
          stall     culprit-20261120T110000.000Z-7-2.stall, 2.00 s, ended
          stall     yesterday.stall, 5.00 s, ended

        """
    )
  }

  @Test func partitionsRowsByDayAndHost() throws {
    let name = Self.hostile
    try save(1, "load()", in: directory)
    try save(2, name, hours: 1, in: directory)
    try save(3, "load()", hours: 2, host: "../x y", in: directory)
    for _ in 0..<2 {
      let outcome = try culprit(["export", "--format=jsonl", "-o", "\(directory)/rows", directory])
      #expect(outcome.status == 0 && outcome.out + outcome.error == "", "\(outcome)")
      let day = "\(directory)/rows/day=2026-11-20"
      #expect(try FileManager.default.contentsOfDirectory(atPath: day).sorted() == ["host=..%2Fx%20y", "host=web-1"])
      let files = try FileManager.default.contentsOfDirectory(atPath: "\(day)/host=web-1")
      try #require(files.count == 1 && files[0].hasPrefix("part-") && files[0].hasSuffix(".jsonl"))
      let rows = try String(contentsOfFile: "\(day)/host=web-1/\(files[0])", encoding: .utf8).split(separator: "\n")
        .map {
          try #require(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
      #expect(rows.map { $0["row"] as? String } == ["stall", "samples", "stall", "samples"])
      let function = try #require(rows[0]["function"] as? String)
      #expect(function.contains("a\\u{1b}[2J\"\\\\u{a}b\\u{202e}") && function.count <= 130, "\(function)")
      #expect(rows[1]["stack"] as? [String] == [function] && rows[1]["seconds"] as? Double == 2)
    }
    let text = try culprit(["top", "--details", directory])
    #expect(text.out.contains("a\\u{1b}[2J") && !text.out.contains("\u{1b}"), "\(text)")
  }

  @Test func leavesNoPartialOutput() throws {
    let file = try save(1, "load()", in: directory)
    func shell(_ script: String) throws -> ChildProcess {
      try ChildProcess("/bin/sh", ["-c", script, builtProgram("culprit").path, file, directory], keepsErrors: true)
    }
    let full = try shell(#""$0" export --format=jsonl "$1" >/dev/full"#)
    #expect(full.status == 1)
    #expect(full.errors == "culprit: cannot write to standard output: No space left on device\n")
    let closed = try shell(#"{ "$0" top "$1"; echo $? >&2; } | true"#)
    #expect(closed.errors == "0\n")
    // Limits files to one block, the size of a row.
    let limited = try shell(#"trap '' XFSZ; ulimit -f 1; "$0" export --format=jsonl -o "$2/rows" "$1""#)
    #expect(limited.status == 1 && limited.errors.hasSuffix(": File too large\n"), "\(limited)")
    let left = FileManager.default.enumerator(atPath: "\(directory)/rows")?.compactMap { $0 as? String } ?? []
    #expect(left.isEmpty, "\(left)")
    let other = "\(directory)/other"
    try Data().write(to: URL(fileURLWithPath: other))
    let taken = try culprit(["export", "--format=jsonl", "-o", other, file])
    #expect(taken.status == 1 && taken.error == "culprit: \(other): not a directory\n")
    let nowhere = try culprit(["export", "--format=jsonl", "-o", "/proc/nowhere/rows", file])
    #expect(nowhere.status == 1 && nowhere.error == "culprit: /proc/nowhere/rows: No such file or directory\n")
  }

  @Test func reportsBadInput() throws {
    try save(1, "load()", in: directory)
    try Data("hello".utf8).write(to: URL(fileURLWithPath: "\(directory)/culprit-x.stall"))
    for words in [["top"], ["export", "--format=jsonl"], ["diff", directory]] {
      let outcome = try culprit(words + [directory])
      #expect(outcome.status == 1 && outcome.out.contains("load()"), "\(outcome)")
      #expect(outcome.error.contains("culprit: \(directory)/culprit-x.stall: is not a .stall file"), "\(outcome)")
    }
    for format in [[], ["--format=json"]] {
      let missing = try culprit(["top", "\(directory)/missing"] + format)
      #expect(missing.status == 1 && missing.out == "", "\(missing)")
      #expect(missing.error == "culprit: \(directory)/missing: No such file or directory\n")
    }
  }

  @Test(arguments: [
    (["top", "--by=x"], "--by is culprit, cause, source, service, host or version, not \"x\""),
    (["top", "--format=xml"], "--format is text or json, not \"xml\""),
    (["top", "--limit=0"], "--limit takes a whole number from 1 to 1000000, not \"0\""),
    (
      ["report", "--since=yesterday"],
      "--since takes a time such as 2026-11-20T10:23:51Z, 2026-11-20 or 2h (ago), not \"yesterday\""
    ),
    (
      ["top", "--since=2026-11-21", "--until=2026-11-20T12:00:00+01:00"],
      "--since=2026-11-21 is later than --until=2026-11-20T12:00:00+01:00: no stall began after "
        + "2026-11-21T00:00:00.000Z and before 2026-11-20T11:00:00.000Z"
    ),
    (
      ["report", "-o", "x.svg"],
      "report writes no SVG: \"culprit export -o x.html\" writes a page with a flame graph"
    ),
    (["diff", "a"], "diff takes two files or directories, BEFORE and AFTER, not 1"),
    (["export", "--format=jsonl", "--raw"], "--raw requires --format=pprof"),
    (["report", "--own=", "x"], "--own takes a NAME, which must not be empty"),
    (["top", "--wrapper=Lock", "--wrapper", ""], "--wrapper takes a NAME, which must not be empty"),
    (["info", "--modules", "/etc"], "--modules requires FILEs: a DIRECTORY lists runs"),
  ])
  func reportsUsageErrors(words: [String], sentence: String) throws {
    let outcome = try culprit(words)
    #expect(outcome.status == 2 && outcome.out == "")
    #expect(outcome.error == "culprit: \(sentence)\nTry \"culprit \(words[0]) --help\".\n")
  }

  @Test(arguments: [
    (["report", "--brief"], ["--full", "--explain", "--threads", "--width=80", "--color=always"]),
    (
      ["report", "--open"],
      ["--brief", "--format=text", "--full", "--explain", "--threads", "--width=80", "--color=never", "--ascii"]
    ),
    (
      ["report", "--format=json"],
      ["--brief", "--full", "--explain", "--threads", "--width=80", "--color=never", "--ascii"]
    ),
    (["top", "--format=json"], ["--details", "--width=80", "--color=never", "--ascii"]),
    (["diff", "--format=json"], ["--width=80", "--color=never", "--ascii"]),
    (["symbolize", "--format=json", "-e", "/bin/true"], ["-f", "-i", "-C", "-a", "-p", "-s"]),
    (["symbolize", "-o", "out"], ["-f", "-i", "-C", "-a", "-p", "-s", "--format=json"]),
  ])
  func rejectsOptionsWithoutEffect(words: [String], others: [String]) throws {
    for other in others {
      let outcome = try culprit(words + [other, "/nowhere", "/nowhere"])
      #expect(outcome.status == 2 && outcome.out == "", "\(words) \(other) \(outcome)")
      let name = other.hasPrefix("--") ? other.prefix { $0 != "=" } : "--"
      #expect(outcome.error.hasPrefix("culprit: \(name)"), "\(words) \(other) \(outcome)")
      #expect(!outcome.error.contains("No such file"), "\(words) \(other) \(outcome)")
    }
  }

  @Test func rejectsMissingDebugDirectories() throws {
    let file = try save(1, "load()", in: directory)
    let commands = [["report"], ["top"], ["export"], ["export", "-fhtml"], ["export", "-fjsonl"], ["diff", file]]
    for command in commands + [["symbolize", "-o", "\(directory)/out"]] {
      for (wrong, reason) in [
        ("\(directory)/none", "No such file or directory"), (file, "Not a directory"),
        ("", "No such file or directory"),
      ] {
        let outcome = try culprit(command + ["--debug-dir=\(directory)", "--debug-dir=\(wrong)", file])
        #expect(outcome.status == 1 && outcome.out == "", "\(command) \(outcome)")
        #expect(outcome.error == "culprit: --debug-dir=\(wrong): \(reason)\n", "\(command) \(outcome)")
      }
    }
    #expect(try culprit(["report", "--debug-dir=\(directory)", file]).status == 0)
  }
}

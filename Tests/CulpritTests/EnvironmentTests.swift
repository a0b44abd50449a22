import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import Culprit

@Suite struct SettingTests {
  @TemporaryDirectory private var directory: String

  @Test(arguments: [
    ("2s", Duration.seconds(2)), ("500ms", .milliseconds(500)), ("1m", .seconds(60)), ("250us", .microseconds(250)),
    ("1h", .seconds(3600)), ("30d", .seconds(2_592_000)), ("1.5s", .milliseconds(1500)), (" 2 s ", .seconds(2)),
    ("0s", .zero),
  ])
  func parsesDurations(text: String, duration: Duration) { #expect(Duration(text: text) == duration) }

  @Test(arguments: ["", "2", "s", "2 parsecs", "-2s", "1e3s", "2s 3s", "..s", "99999999999h", "٢s", "2sms", "nan s"])
  func rejectsInvalidDurations(text: String) { #expect(Duration(text: text) == nil) }

  private func applied(
    _ variables: [String: String],
    _ lines: String? = nil,
    to base: Watchdog.Configuration = Watchdog.Configuration(),
    running: Watchdog.Configuration? = nil
  ) -> (configuration: Watchdog.Configuration, problems: [String]) {
    var variables = variables
    if lines != nil { variables["CULPRIT_CONFIGURATION"] = "/etc/shop" }
    return Environment(variables).applied(
      to: base,
      content: lines.map { ConfigurationFile.parse($0) },
      running: running
    )
  }

  @Test func fileOverridesEnvironmentAndEnvironmentOverridesCode() {
    var base = Watchdog.Configuration(threshold: .seconds(8), interval: .seconds(2))
    base.reporting.width = 120
    let (found, problems) = applied(
      ["CULPRIT_THRESHOLD": "6s", "CULPRIT_DIRECTORY": "/a", "CULPRIT_STACK_BYTES": "65536", "PATH": "/bin"],
      """
      # of the shop

      threshold = 5s
       Interval=500ms
      directory = /b = c
      """,
      to: base
    )
    #expect(problems.isEmpty)
    #expect(found.sampling.threshold == .seconds(5))
    #expect(found.sampling.interval == .milliseconds(500))
    #expect(found.storage.directory == "/b = c")
    #expect(found.sampling.stackBytesMax == 65536)
    #expect(found.reporting.width == 120)
  }

  @Test(arguments: [
    (
      ["CULPRIT_THRESHOLD": "soon"],
      "CULPRIT_THRESHOLD is \"soon\"; it must be a duration such as 2s, 500ms, 1m or 250us; it stays 4s"
    ),
    (
      ["CULPRIT_THRESHOLD": "250us"],
      "CULPRIT_THRESHOLD is \"250us\": sampling.threshold is 250us; it must be from 10ms to "
        + "2147483648s; it stays 4s"
    ),
    (
      ["CULPRIT_STACK_BYTES": "12"],
      "CULPRIT_STACK_BYTES is \"12\": sampling.stackBytesMax is 12; it must be from 4096 to 8388608 bytes; it stays 8388608"
    ),
    (["CULPRIT_DIRECTORY": ""], "CULPRIT_DIRECTORY is \"\"; it must be a path, or standard; it stays none"),
    (
      ["CULPRIT_REPORT_WIDTH": "wide"],
      "CULPRIT_REPORT_WIDTH is \"wide\"; it must be a number of characters such as 100; it stays 100"
    ),
  ])
  func reportsInvalidValuesAndKeepsDefaults(variables: [String: String], problem: String) {
    let (found, problems) = applied(variables)
    #expect(problems == [problem])
    #expect(found.sampling.threshold == .seconds(4) && found.sampleInterval == .seconds(1))
    #expect(found.storage.directory == nil && found.sampling.stackBytesMax == 8 << 20 && found.reporting.width == 100)
  }

  @Test func resolvesStandardDirectory() throws {
    let program = try #require(CommandLine.arguments.first?.split(separator: "/").last)
    let state = ["XDG_STATE_HOME": "/s"]
    #expect(applied(state).configuration.storage.directory == nil)
    let (found, problems) = applied(state.merging(["CULPRIT_DIRECTORY": "standard"]) { $1 })
    #expect(found.storage.directory == "/s/culprit/\(program)" && problems == [])
    for line in ["directory = standard", "Directory=STANDARD", " DIRECTORY =\tStandard \r"] {
      let (found, problems) = applied(["STATE_DIRECTORY": "/var/lib/shop"], line)
      #expect(found.storage.directory == "/var/lib/shop/culprit" && problems == [], "\(line)")
    }
    #expect(applied(state, "directory = ./standard").configuration.storage.directory == "./standard")
  }

  @Test func reportsMissingStandardDirectory() {
    let missing =
      "and there is none: not one of STATE_DIRECTORY, RUNTIME_DIRECTORY, XDG_STATE_HOME, HOME has an absolute path"
    let (found, problems) = applied(["CULPRIT_DIRECTORY": "standard", "HOME": "here"], "directory = Standard")
    #expect(found.storage.directory == nil)
    #expect(
      problems == [
        "CULPRIT_DIRECTORY is \"standard\", \(missing); it stays none",
        "/etc/shop, line 1: directory is \"Standard\", \(missing); it stays none",
      ]
    )
  }

  @Test func readsStorageLimits() {
    let (found, problems) = applied(
      ["CULPRIT_DIRECTORY_BYTES": "1048576", "CULPRIT_DIRECTORY_FILES": "-1", "CULPRIT_KEEP_RECOVERED": "no"],
      "directory_age = 7d\nnote_crashes = off\ndirectory_bytes = much"
    )
    var expected = storageLimits(bytes: 1 << 20, age: .seconds(7 * 86_400))
    (expected.keepsRecoveredStalls, expected.notesCrashes) = (false, false)
    #expect(found.storage == expected)
    #expect(
      problems == [
        "CULPRIT_DIRECTORY_FILES is \"-1\": storage.filesMax is -1; it must be at least 0 files; it stays 1000",
        "/etc/shop, line 3: directory_bytes is \"much\"; it must be a number of bytes such as 268435456; it stays 1048576",
      ]
    )
  }

  @Test func settingNamesAreUnique() {
    for names in [Setting.all.map(\.name), Setting.all.map(\.property)] {
      #expect(names.sorted() == Set(names).sorted())
    }
  }

  @Test(arguments: [
    ("CULPRIT_TRESHOLD", "CULPRIT_THRESHOLD"), ("CULPRIT_THERSHOLD", "CULPRIT_THRESHOLD"),
    ("CULPRIT_DIRECTORYS", "CULPRIT_DIRECTORY"), ("CULPRIT_DIRECTORY_FILE", "CULPRIT_DIRECTORY_FILES"),
    ("CULPRIT_REPORTS_PER_SECOND", "CULPRIT_REPORTS_PER_MINUTE"), ("CULPRIT_CONFIG", "CULPRIT_CONFIGURATION"),
    ("CULPRIT_ENABLE", "CULPRIT_ENABLED"), ("CULPRIT_TRESHOLD\u{1B}", "CULPRIT_THRESHOLD"), ("CULPRIT_TIMEOUT", nil),
    ("CULPRIT_INTERVXX", "CULPRIT_INTERVAL"), ("CULPRIT_INTERXXX", nil), ("CULPRIT_SYSTEMD2", "CULPRIT_SYSTEMD"),
    ("CULPRIT_SYSTXXX", nil), ("CULPRIT_FETCH_DEBUG_INFO", "CULPRIT_FETCH_DEBUG_INFORMATION"),
    ("CULPRIT_F", "CULPRIT_FETCH_DEBUG_INFORMATION"), ("CULPRIT_PORTS", nil),
  ])
  func suggestsNearestName(name: String, nearest: String?) {
    let (found, problems) = applied([name: "2s"])
    let rest =
      nearest.map { "did you mean \($0)?" }
      ?? "available: \(Environment.knownVariables.joined(separator: ", "))"
    let shown = name.filter { $0 != "\u{1B}" } + (name.hasSuffix("\u{1B}") ? "\\u{1b}" : "")
    #expect(problems == ["unknown setting \"\(shown)\"; \(rest)"])
    #expect(found.sampling.threshold == .seconds(4) && found.storage.directory == nil)
  }

  @Test func ignoresUnrelatedVariables() {
    var variables = [
      "CULPRIT": "x", "CULPRITS_THRESHOLD": "2s", "MY_CULPRIT_THRESHOLD": "2s", "culprit_treshold": "2s",
    ]
    for name in [
      "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP", "PORT", "PORT_80_TCP_ADDR", "DB_SERVICE_HOST",
      "DB_PORT_5432_TCP",
    ] { variables["CULPRIT_\(name)"] = "10.0.0.1" }
    #expect(applied(variables).problems == [])
    let settings = Setting.all.map { ($0.variable, $0.name == "while_debugged" ? "marked" : "") }
    let all = Dictionary(settings + [("CULPRIT_ENABLED", "no")]) { $1 }
    let problems = applied(all, "").problems
    #expect(!problems.contains { $0.contains("no setting") })
  }

  @Test func shortensIntervalToThreshold() {
    #expect(applied(["CULPRIT_THRESHOLD": "200ms"]).configuration.sampleInterval == .milliseconds(200))
    let (found, problems) = applied(["CULPRIT_THRESHOLD": "200ms", "CULPRIT_INTERVAL": "300ms"])
    #expect(found.sampleInterval == .milliseconds(200) && problems.count == 1)
    let explicit = Watchdog.Configuration(interval: .seconds(1))
    #expect(applied(["CULPRIT_THRESHOLD": "2s"], to: explicit).configuration.sampling.interval == .seconds(1))
    #expect(applied(["CULPRIT_THRESHOLD": "200ms"], to: explicit).configuration.sampleInterval == .milliseconds(200))
  }

  @Test func reportsInvalidLines() {
    let (found, problems) = applied(
      [:],
      "threshold 2s\ntreshold = 2s\n= 3\ninterval = soon\nenabled = maybe\nthreshold=3s"
    )
    #expect(
      problems == [
        "/etc/shop, line 1: a line must be name = value",
        "/etc/shop, line 3: a line must be name = value",
        "/etc/shop, line 2: unknown setting \"treshold\"; available: "
          + (Setting.all + [Setting.enabled]).map(\.name).joined(separator: ", "),
        "/etc/shop, line 4: interval is \"soon\"; it must be a duration such as 2s, 500ms, 1m or 250us; it stays 1s",
        "/etc/shop, line 5: enabled is \"maybe\"; it must be yes or no; it stays yes",
      ]
    )
    #expect(found.sampling.threshold == .seconds(3))
  }

  @Test func reportsChangesOfFixedSettings() {
    let running = Watchdog.Configuration(directory: "/a")
    let (found, problems) = applied([:], "directory = /b\nthreshold = 2s", to: running, running: running)
    #expect(found.storage.directory == "/a" && found.sampling.threshold == .seconds(2))
    #expect(problems == ["directory cannot be changed while the watchdog runs; it stays /a"])
  }

  @Test func readsOnlyFiles() throws {
    var folder = ConfigurationFile(path: directory)
    #expect(folder.readIfChanged() == .unreadable("it is not a file"))
    #expect(mkfifo("\(directory)/pipe", 0o600) == 0)
    var pipe = ConfigurationFile(path: "\(directory)/pipe")
    #expect(pipe.readIfChanged() == .unreadable("it is not a file"))
  }

  @Test func documentationListsEverySetting() throws {
    let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .deletingLastPathComponent()
    let all = Set(Setting.all.map(\.name) + ["enabled", "configuration"])
    for page in ["docs/configuration.md", "README.md"] {
      let text = try String(contentsOf: root.appendingPathComponent(page), encoding: .utf8)
      let documented = Set(text.matches(of: /`CULPRIT_([A-Z_]+)`/).map { $0.1.lowercased() })
      #expect(page == "README.md" ? documented.isSubset(of: all) : documented == all, "\(page)")
    }
    let text = try String(contentsOf: root.appendingPathComponent("docs/configuration.md"), encoding: .utf8)
    for setting in Setting.all {
      let rows = text.split(separator: "\n").filter { $0.contains("`\(setting.variable)`") && $0.hasPrefix("|") }
      #expect(rows.count == 1, "\(setting.name)")
      let row = rows.first { $0.hasPrefix("| `\(setting.property)` | `\(setting.variable)` |") }
      #expect(row?.contains("| `\(setting.name)` |") == true, "\(setting.name)")
      #expect(row?.hasSuffix(setting.isLive ? "| yes |" : "| no |") == true, "\(setting.name)")
    }
  }
}

@Suite(.ownThread) struct EnvironmentTests {
  @TemporaryDirectory private var directory: String

  @Test func readsProcessEnvironment() throws {
    let child = try ChildProcess(
      ChildProcess.built("policy-process"),
      ["settings"],
      environment: [
        "CULPRIT_THRESHOLD": "2s", "CULPRIT_INTERVAL": "never", "CULPRIT_DIRECTORY": "\(directory)/stalls",
        "CULPRIT_ENABLED": "perhaps", "CULPRIT_TRESHOLD": "3s",
      ]
    )
    #expect(child.hasExited && child.status == 0, "\(child)")
    #expect(child.fact("threshold") == "2.0 seconds" && child.fact("interval") == "none")
    #expect(child.fact("directory") == "\(directory)/stalls" && child.fact("mode") == "watching")
    let problems = [
      "CULPRIT_ENABLED is \"perhaps\"; it must be yes or no; the watchdog is started",
      "unknown setting \"CULPRIT_TRESHOLD\"; did you mean CULPRIT_THRESHOLD?",
      "CULPRIT_INTERVAL is \"never\"; it must be a duration such as 2s, 500ms, 1m or 250us; it stays 1s",
    ]
    #expect(child.facts("problem") == problems)
    #expect(child.errors == problems.map { "culprit: \($0)\n" }.joined())
  }

  @Test(.needsRoot(to: "change file owners"))
  func setUserIDProgramsIgnoreEnvironment() throws {
    var place = statvfs()
    try #require(statvfs(directory, &place) == 0)
    if place.f_flag & 2 /* ST_NOSUID of statvfs(3), whose macro is not imported */ != 0 {
      try Test.cancel("the file system ignores set-user-ID bits")
    }
    let program = directory + "/policy-process"
    try ChildProcess.copyProgram(ChildProcess.built("policy-process"), to: program)
    try #require(chown(program, 12345, 12345) == 0 && chmod(program, 0o4755) == 0 && chmod(directory, 0o755) == 0)
    let variables = ["CULPRIT_THRESHOLD": "9s", "CULPRIT_DIRECTORY": "\(directory)/stalls"]
    let child = try ChildProcess(program, ["settings"], environment: variables)
    #expect(child.hasExited && child.status == 0, "\(child)")
    #expect(child.fact("threshold") == "4.0 seconds" && child.fact("directory") == "none", "\(child)")
    try #require(chmod(program, 0o755) == 0)
    #expect(try ChildProcess(program, ["settings"], environment: variables).fact("threshold") == "9.0 seconds")
  }

  @Test func disabledWatchdogDoesNothing() throws {
    let child = try ChildProcess(
      ChildProcess.built("policy-process"),
      ["disabled"],
      environment: ["CULPRIT_ENABLED": "no"]
    )
    #expect(child.hasExited && child.status == 0, "\(child)")
    #expect(
      child.output == """
        watched=false
        capture=the watchdog was not started, because CULPRIT_ENABLED is no
        mode=disabled
        threads=1
        handler=default

        """
    )
    #expect(child.errors == "")
  }
}

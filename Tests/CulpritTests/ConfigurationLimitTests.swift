import CCulpritLinux
import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import Culprit

@Suite(.serialized, .usesSimulatedClock) struct ConfigurationLimitTests {
  @TemporaryDirectory private var directory: String

  private typealias Configuration = Watchdog.Configuration

  private struct Edge: Sendable {
    var name: String
    var isGood: Bool
    var set: @Sendable (inout Watchdog.Configuration) -> Void

    init(_ name: String, _ isGood: Bool, _ set: @escaping @Sendable (inout Watchdog.Configuration) -> Void) {
      (self.name, self.isGood, self.set) = (name, isGood, set)
    }
  }

  private static func duration(
    _ path: WritableKeyPath<Watchdog.Configuration, Duration?> & Sendable,
    _ name: String,
    from least: Duration,
    to most: Duration = .seconds(1 << 31)
  ) -> [Edge] {
    [
      Edge(name, true) { $0[keyPath: path] = least },
      Edge(name, false) { $0[keyPath: path] = least - .nanoseconds(1) },
      Edge(name, true) { $0[keyPath: path] = most },
      Edge(name, false) { $0[keyPath: path] = most + .nanoseconds(1) },
      Edge(name, true) { $0[keyPath: path] = nil },
    ]
  }

  private static func number(
    _ path: WritableKeyPath<Watchdog.Configuration, Int> & Sendable,
    _ name: String,
    from least: Int,
    to most: Int = .max
  ) -> [Edge] {
    let edges = [
      Edge(name, true) { $0[keyPath: path] = least }, Edge(name, false) { $0[keyPath: path] = least - 1 },
      Edge(name, true) { $0[keyPath: path] = most },
    ]
    return most == .max ? edges : edges + [Edge(name, false) { $0[keyPath: path] = most + 1 }]
  }

  private static var edges: [Edge] {
    let (shortest, longest) = (Duration.milliseconds(10), Duration.seconds(1 << 31))
    let one = Duration.nanoseconds(1)
    return [
      Edge("sampling.threshold", true) { $0.sampling.threshold = shortest },
      Edge("sampling.threshold", false) { $0.sampling.threshold = shortest - one },
      Edge("sampling.threshold", true) { $0.sampling.threshold = longest },
      Edge("sampling.threshold", false) { $0.sampling.threshold = longest + one },
      Edge("reporting.fetchPatience", true) { $0.reporting.fetchPatience = .zero },
      Edge("reporting.fetchPatience", false) { $0.reporting.fetchPatience = .zero - one },
      Edge("reporting.fetchPatience", false) { $0.reporting.fetchPatience = longest + one },
      Edge("storage.ageMax", true) { $0.storage.ageMax = .zero },
      Edge("storage.ageMax", false) { $0.storage.ageMax = .zero - one },
      Edge("storage.directory", true) { $0.storage.directory = "a" },
      Edge("storage.directory", false) { $0.storage.directory = "" },
      Edge("storage.directory", false) { $0.storage.directory = "a\0b" },
      Edge("activities.expirationThreshold", true) { $0.activities.expirationThreshold = shortest },
      Edge("activities.expirationThreshold", false) { $0.activities.expirationThreshold = shortest - one },
    ]
      + duration(\.sampling.hangThreshold, "sampling.hangThreshold", from: .seconds(4))
      + duration(\.sampling.interval, "sampling.interval", from: shortest, to: .seconds(4))
      + duration(\.lifecycle.terminateAfter, "lifecycle.terminateAfter", from: .seconds(4))
      + duration(\.lifecycle.launchThreshold, "lifecycle.launchThreshold", from: shortest)
      + duration(\.lifecycle.shutdownThreshold, "lifecycle.shutdownThreshold", from: shortest)
      + number(\.sampling.stackBytesMax, "sampling.stackBytesMax", from: 4096, to: 8 << 20)
      + number(\.reporting.perMinute, "reporting.perMinute", from: 1)
      + number(\.reporting.perCulprit, "reporting.perCulprit", from: 1)
      + number(\.reporting.width, "reporting.width", from: 40)
      + number(\.reporting.symbolBytesMax, "reporting.symbolBytesMax", from: 1 << 20)
      + number(\.storage.bytesMax, "storage.bytesMax", from: 0)
      + number(\.storage.filesMax, "storage.filesMax", from: 0)
      + number(\.activities.countMax, "activities.countMax", from: 1)
  }

  @Test func acceptsOnlyValuesWithinLimits() {
    for (number, edge) in Self.edges.enumerated() {
      var configuration = Watchdog.Configuration()
      edge.set(&configuration)
      let error: WatchdogError?
      do {
        try configuration.validate()
        error = nil
      } catch let thrown {
        error = thrown
      }
      #expect((error == nil) == edge.isGood, "\(edge.name), \(number)")
      if let error { #expect(error.code == .invalidConfiguration && error.name == edge.name) }
    }
  }

  @Test func derivesTimesFromThreshold() {
    for (threshold, interval, hangDelay) in [
      (Duration.milliseconds(500), Duration.milliseconds(500), Duration.milliseconds(7500)),
      (.seconds(1), .seconds(1), .seconds(7)), (.seconds(4), .seconds(1), .seconds(4)),
      (.seconds(5), .seconds(1), .seconds(5)),
    ] {
      let configuration = Watchdog.Configuration(threshold: threshold)
      #expect(configuration.sampleInterval == interval && configuration.hangDelay == hangDelay)
    }
    let given = Watchdog.Configuration(threshold: .seconds(2), hangThreshold: .seconds(3), interval: .milliseconds(20))
    #expect(given.sampleInterval == .milliseconds(20) && given.hangDelay == .seconds(1))
  }

  @Test func derivesSourceLimitsFromThreshold() {
    let limits = WatchLimits(threshold: .seconds(4), interval: .seconds(1))
    #expect(limits.suspicion == .milliseconds(500) && limits.earlyInterval == .milliseconds(200))
    #expect(limits.earlyInterval * Int(WorkItemTracker.samplesInAnAge) == limits.threshold)
    #expect(limits.threshold == .seconds(4) && limits.interval == .seconds(1))
    #expect(WatchLimits(threshold: .seconds(4), interval: .seconds(5)).interval == .seconds(4))
    let longest = WatchLimits(threshold: .seconds(1 << 40), interval: .seconds(1 << 40))
    #expect(longest.threshold == WatchLimits.longestTime && longest.interval == WatchLimits.longestTime)
  }

  @Test func settingsAreIndependent() {
    let texts = [
      "threshold": "2s", "hang_threshold": "20s", "interval": "100ms", "terminate_after": "30s", "directory": "/a",
      "directory_bytes": "7", "directory_files": "8", "directory_age": "9d", "keep_recovered": "no",
      "note_crashes": "no",
      "stack_bytes": "8192", "cpu_budget": "7", "symbol_memory": "2097152", "reports_per_minute": "3",
      "reports_per_culprit": "4",
      "activities_max": "5", "expiration_threshold": "6s", "while_debugged": "ignored", "report_width": "77",
      "own_modules": "a, b", "wrappers": "c.d()", "launch_threshold": "11s", "shutdown_threshold": "12s",
      "notice_sigterm": "yes", "systemd": "yes", "fetch_debug_information": "yes", "fetch_patience": "13s",
      "metrics_file": "/a/shop.prom", "metrics_interval": "20s", "metrics_labels": "service=shop", "control": "yes",
      "enabled": "no",
    ]
    let all = Setting.all + [Setting.enabled]
    #expect(Set(all.map(\.name)) == Set(texts.keys))
    for setting in all {
      var changed = Watchdog.Configuration()
      #expect(setting.set(&changed, texts[setting.name] ?? ""), "\(setting.name)")
      #expect(changed != Watchdog.Configuration(), "\(setting.name)")
      for other in all where other.show(changed) != other.show(Watchdog.Configuration()) {
        #expect(other.name == setting.name)
      }
      #expect(setting.show(changed) != setting.show(Watchdog.Configuration()), "\(setting.name)")
      var copy = Watchdog.Configuration()
      setting.copy(&copy, changed)
      #expect(copy == changed, "\(setting.name)")
      setting.copy(&copy, Watchdog.Configuration())
      #expect(copy == Watchdog.Configuration(), "\(setting.name)")
      #expect(setting.variable == "CULPRIT_" + setting.name.uppercased())
    }
  }

  @Test func rejectsInvalidForms() {
    for setting in Setting.all + [Setting.enabled] {
      var configuration = Watchdog.Configuration()
      let isText = ["directory", "metrics_file", "own_modules", "wrappers"].contains(setting.name)
      #expect(setting.set(&configuration, "no such thing") == isText, "\(setting.name)")
      #expect(setting.set(&configuration, "none") == (isText || setting.form.hasSuffix("none")), "\(setting.name)")
    }
    for (texts, truth) in [(["1", "yes", "TRUE", "On"], true), (["0", "no", "False", "OFF"], false)] {
      for text in texts { #expect(Setting.truth(text) == truth) }
    }
    for text in ["", "2", "y", " yes"] { #expect(Setting.truth(text) == nil) }
  }

  @Test func splitsListsAtCommas() {
    for (text, list) in [
      ("", []), ("a", ["a"]), (" a , b c ,,  , d", ["a", "b c", "d"]), (",", []),
      ("Lock.lock(_:of:),x", ["Lock.lock(_:of:)", "x"]),
    ] as [(String, [String])] {
      var configuration = Watchdog.Configuration()
      configuration.reporting.wrappers = ["before"]
      let setting = Setting.all.first { $0.name == "wrappers" }
      #expect(setting?.set(&configuration, text) == true && configuration.reporting.wrappers == list, "\(text)")
    }
  }

  @Test func parsesLines() {
    func lines(_ text: String) -> [String] {
      guard case .lines(let lines, let malformed) = ConfigurationFile.parse(text) else { return [] }
      return lines.map { "\($0.number) \($0.name)=\($0.value)" } + malformed.map { "\($0)?" }
    }
    #expect(lines("") == [] && lines("\n  \n\t\n# a = b\n  # c = d\n") == [])
    #expect(lines("A = b") == ["1 a=b"] && lines("a=b\r\nc\t=\td \r\n") == ["1 a=b", "2 c=d"])
    #expect(lines("a = b = # c") == ["1 a=b = # c"] && lines("a=") == ["1 a="] && lines("=") == ["1?"])
    #expect(lines("\n\nx\n =y\n a b = c d ") == ["5 a b=c d", "3?", "4?"])
  }

  @Test func readsChangedFiles() throws {
    let path = "\(directory)/file"
    func write(_ text: String) throws { try text.write(toFile: path, atomically: true, encoding: .utf8) }
    func line(_ value: String) -> ConfigurationFile.Content {
      .lines([ConfigurationFile.Line(number: 1, name: "a", value: value)], malformed: [])
    }
    var file = ConfigurationFile(path: path)
    try write("a = 1")
    #expect(file.readIfChanged() == line("1") && file.readIfChanged() == nil)
    // Replaces the file, keeping size and modification time.
    let date = try #require(FileManager.default.attributesOfItem(atPath: path)[.modificationDate] as? Date)
    try write("a = 2")
    try FileManager.default.setAttributes([.modificationDate: date], ofItemAtPath: path)
    #expect(file.readIfChanged() == line("2") && file.readIfChanged() == nil)
    unlink(path)
    #expect(file.readIfChanged() == .unreadable("No such file or directory") && file.readIfChanged() == nil)
    let longest = "a = " + String(repeating: "x", count: (64 << 10) - 4)
    try write(longest)
    #expect(file.readIfChanged() == line(String(longest.dropFirst(4))))
    try write(longest + "x")
    #expect(file.readIfChanged() == .unreadable("it has 65537 bytes, more than 65536"))
  }

  // MARK: Live changes

  private func live(_ base: Watchdog.Configuration = Watchdog.Configuration(), _ variables: [String: String] = [:])
    -> LiveConfiguration
  {
    LiveConfiguration(base, Environment(variables), content: nil)
  }

  @Test func followersGetEveryChange() throws {
    let live = live(Watchdog.Configuration(threshold: .seconds(3)))
    let seen = Mutex<[Duration]>([])
    try live.change { $0.sampling.threshold = .seconds(5) }
    live.follow { configuration in
      seen.withLock { $0.append(configuration.sampling.threshold) }
      return []
    }
    try live.change { $0.sampling.threshold = .seconds(7) }
    live.fileChanged(ConfigurationFile.parse("threshold = 9s"))
    live.fileChanged(ConfigurationFile.parse("threshold = 9s"))
    try live.change { $0.sampling.threshold = .seconds(8) }
    live.fileChanged(ConfigurationFile.parse(""))
    live.unfollow(until: .max)
    try live.change { $0.sampling.threshold = .seconds(6) }
    #expect(seen.withLock { $0 } == [5, 7, 9, 9, 8].map { .seconds($0) })
    #expect(live.current.sampling.threshold == .seconds(6) && live.initial.sampling.threshold == .seconds(3))
  }

  @Test func boundsWaitForHangingChange() throws {
    let live = live()
    let (hasBegun, mayEnd) = (Promise<Bool>(), Promise<Bool>())
    let count = Mutex(0)
    live.follow { configuration in
      guard configuration.sampling.threshold == .seconds(5) else { return [] }
      count.withLock { $0 += 1 }
      hasBegun.fulfill(true)
      _ = mayEnd.wait(until: .max)
      return []
    }
    let hasEnded = Promise<Bool>()
    let changing = try PosixThread(name: "changing") {
      try? live.change { $0.sampling.threshold = .seconds(5) }
      hasEnded.fulfill(true)
    }
    _ = hasBegun.wait(until: .max)
    #expect(clock.measure { live.unfollow(until: clinux_clock_ns() + 20_000_000) } == .milliseconds(20))
    mayEnd.fulfill(true)
    _ = hasEnded.wait(until: .max)
    try live.change { $0.sampling.interval = .milliseconds(50) }
    #expect(count.withLock { $0 } == 1)
    changing.join(until: .max)
  }

  @Test func clearsProblemsWithTheirCause() throws {
    let live = live(Watchdog.Configuration(), ["CULPRIT_THRESHOLD": "soon"])
    let first = live.problems
    #expect(first.count == 1 && first.first?.hasPrefix("CULPRIT_THRESHOLD is \"soon\"; ") == true)
    live.fileChanged(ConfigurationFile.parse("nonsense"))
    #expect(live.problems == first + [", line 1: a line must be name = value"])
    live.fileChanged(.unreadable("it is gone"))
    #expect(live.problems == first + ["the configuration file  cannot be read: it is gone"])
    live.fileChanged(ConfigurationFile.parse("directory = /b"))
    #expect(live.problems == first + ["directory cannot be changed while the watchdog runs; it stays none"])
    live.fileChanged(ConfigurationFile.parse(""))
    #expect(live.problems == first && live.current == Watchdog.Configuration())
  }

  @Test func rejectedChangesHaveNoEffect() throws {
    let live = live()
    live.follow { configuration in
      #expect(configuration == Watchdog.Configuration())
      return []
    }
    #expect(throws: WatchdogError.self) { try live.change { $0.sampling.threshold = .zero } }
    for setting in Setting.all where !setting.isLive {
      let error = #expect(throws: WatchdogError.self) {
        try live.change { configuration in
          for text in ["yes", "no", "ignored", "8192", "77", "2097152", "77s", "/a", "/a/a.prom", "a=b"]
          where setting.show(configuration) == setting.show(Watchdog.Configuration()) {
            var changed = configuration
            if setting.set(&changed, text), (try? changed.validate()) != nil { configuration = changed }
          }
        }
      }
      #expect(error == .fixedWhileRunning(setting.property), "\(setting.name)")
    }
    #expect(live.current == Watchdog.Configuration() && live.problems == [])
  }

  @Test func listsDisagreementsInChosenSettings() {
    let live = live(Watchdog.Configuration(threshold: .seconds(3)))
    #expect(live.disagreements(with: Watchdog.Configuration()) == [])
    #expect(live.disagreements(with: Watchdog.Configuration(threshold: .seconds(3))) == [])
    #expect(
      live.disagreements(with: Watchdog.Configuration(threshold: .seconds(2), directory: "/a\n")) == [
        "sampling.threshold is 3s, as the first watchdog of this process has it, and not 2s",
        "storage.directory is none, as the first watchdog of this process has it, and not /a\\u{a}",
      ]
    )
  }

  @Test func environmentCanDisableWatchdog() {
    for (text, isOff) in [("no", true), ("0", true), ("yes", false), ("On", false)] {
      let found = Environment(["CULPRIT_ENABLED": text]).switchesOff
      #expect(found.0 == isOff && found.problem == nil)
    }
    #expect(Environment([:]).switchesOff.0 == false && Environment([:]).switchesOff.problem == nil)
    let odd = Environment(["CULPRIT_ENABLED": "perhaps"]).switchesOff
    #expect(!odd.0 && odd.problem != nil)
    #expect(Environment(["CULPRIT_CONFIGURATION": ""]).file == nil)
    #expect(Environment(["CULPRIT_CONFIGURATION": "/a"]).file == "/a")
  }
}

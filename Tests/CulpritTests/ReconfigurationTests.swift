import Foundation
import TestSupport
import Testing

@testable import Culprit

extension WatchdogTests {
  @Test func appliesChangedThresholds() throws {
    let found = try reports { watchdog in
      let loop = try watchdog.watchLoop(named: "followed")
      let own = try watchdog.watchLoop(named: "own", threshold: .seconds(100))
      try watchdog.reconfigure { $0.sampling.threshold = .seconds(50) }
      #expect(watchdog.configuration.sampling.threshold == .seconds(50))
      loop.withTurn { clock.block(for: .milliseconds(500)) }
      try watchdog.reconfigure {
        $0.sampling.threshold = .milliseconds(100)
        $0.sampling.interval = .milliseconds(50)
      }
      own.withTurn { loop.withTurn { stallByWaiting(for: .milliseconds(500)) } }
      let later = try watchdog.watchLoop(named: "later")
      later.withTurn { stallByWaiting(for: .milliseconds(400)) }
    }
    #expect(found.map(\.source.name) == ["followed", "later"])
    #expect(found.first?.culprit?.function.name == "stallByWaiting(for:)", "\(found)")
  }

  @Test func rejectsChangesOfFixedSettings() throws {
    let watchdog = try Watchdog(quick)
    defer { watchdog.stop() }
    let error = #expect(throws: WatchdogError.fixedWhileRunning("storage.directory")) {
      try watchdog.reconfigure { $0.storage.directory = "/tmp" }
    }
    #expect(error?.description == "storage.directory cannot be changed while the watchdog runs")
    #expect(throws: WatchdogError.self) { try watchdog.reconfigure { $0.sampling.threshold = .zero } }
    #expect(watchdog.configuration.sampling.threshold == quick.sampling.threshold)
  }

  @Test func changesCanUseWatchdogButNotNest() throws {
    let watchdog = try Watchdog(quick)
    defer { watchdog.stop() }
    try watchdog.reconfigure { configuration in
      configuration.sampling.threshold = watchdog.configuration.sampling.threshold * 3
      #expect(watchdog.status.mode == .watching)
      let error = #expect(throws: WatchdogError.self) { try watchdog.reconfigure { $0.isEnabled = false } }
      #expect(error?.message == "the configuration cannot be changed from within a change")
    }
    #expect(watchdog.configuration.sampling.threshold == quick.sampling.threshold * 3)
    try watchdog.reconfigure { $0.isEnabled = false }
    #expect(watchdog.status.mode == .switchedOff)
  }

  @Test func switchesOffAndOn() throws {
    let found = try reports { watchdog in
      let loop = try watchdog.watchLoop(named: "loop")
      try watchdog.reconfigure { $0.isEnabled = false }
      #expect(watchdog.status.mode == .switchedOff)
      loop.withTurn {
        watchdog.withSection("off", threshold: .milliseconds(100)) { clock.block(for: .milliseconds(600)) }
      }
      try watchdog.reconfigure { $0.isEnabled = true }
      #expect(watchdog.status.mode == .watching)
      loop.withTurn { stallByWaiting(for: .milliseconds(600)) }
    }
    #expect(found.map(\.source.name) == ["loop"])
  }

  @Test func followsConfigurationFile() throws {
    let file = "\(directory)/culprit.conf"
    func write(_ text: String) throws { try text.write(toFile: file, atomically: true, encoding: .utf8) }
    try write("threshold = 3s\n")
    let environment = Environment(["CULPRIT_CONFIGURATION": file, "CULPRIT_THRESHOLD": "2s"])
    let watchdog = try Watchdog(quick, environment: environment)
    defer { watchdog.stop() }
    #expect(watchdog.configuration.sampling.threshold == .seconds(3))
    try write("threshold = 5s\nenabled = no\ndirectory = /x\n")
    clock.wait { watchdog.configuration.sampling.threshold == .seconds(5) }
    #expect(watchdog.status.mode == .switchedOff)
    #expect(watchdog.status.problems == ["directory cannot be changed while the watchdog runs; it stays none"])
    try watchdog.reconfigure { $0.sampling.threshold = .seconds(7) }
    #expect(watchdog.configuration.sampling.threshold == .seconds(5))
    try FileManager.default.removeItem(atPath: file)
    clock.wait { watchdog.configuration.sampling.threshold == .seconds(2) }
    #expect(watchdog.status.mode == .watching)
    #expect(watchdog.status.problems == ["the configuration file \(file) cannot be read: No such file or directory"])
    try write("")
    clock.wait { watchdog.status.problems.isEmpty }
  }
}

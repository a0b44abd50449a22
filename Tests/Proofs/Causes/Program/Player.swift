import Culprit
import Foundation
import Glibc
import Judges

/// Plays scenarios, each in a separate process, and judges the reports.
struct Player {
  private(set) var judgement = CauseJudgement()

  /// Plays `scenario`. Prints a line if its report is wrong, or if this machine cannot play it.
  mutating func play(_ scenario: Scenario) {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
    process.arguments = [scenario.name]
    let (output, errors) = (Pipe(), Pipe())
    process.standardOutput = output
    process.standardError = errors
    guard (try? process.run()) != nil else { return fail(scenario, "could not be started") }
    let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    let trouble = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    if process.terminationStatus == 77 {
      judgement.skip()
      print("unavailable=\(scenario.name) \(trouble.prefix(200))")
      return
    }
    let lines = text.split(separator: "\n")
    guard lines.count == 2, let measured = try? JSONDecoder().decode(CauseMeasures.self, from: Data(lines[0].utf8)),
      let report = try? JSONDecoder().decode(StallReport.self, from: Data(lines[1].utf8))
    else { return fail(scenario, "status \(process.terminationStatus): \(text.suffix(200)) \(trouble.suffix(200))") }
    if let faults = judgement.judge(scenario.truth, measured, report) { print("trial=\(scenario.name) \(faults)") }
  }

  private mutating func fail(_ scenario: Scenario, _ text: String) {
    judgement.fail()
    print("trial=\(scenario.name) \(text)")
  }
}

struct BusyProcesses {
  private var all: [Process] = []

  init(_ count: Int) throws {
    for _ in 0..<count {
      let process = Process()
      process.executableURL = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
      process.arguments = ["spin"]
      try process.run()
      all.append(process)
    }
  }

  func end() {
    for process in all {
      kill(process.processIdentifier, SIGKILL)
      process.waitUntilExit()
    }
  }
}

import Culprit
import Foundation
import Glibc

/// Plays scenarios, each in a process of its own, and compares what reports say with what is known.
struct Judgement {
  private(set) var played = 0
  private(set) var right = 0
  private(set) var culpritRight = 0
  private(set) var holders = 0
  private(set) var holdersRight = 0
  private(set) var falseDeadlocks = 0
  private(set) var wrongSums = 0
  private(set) var unavailable = 0

  /// What the stalled thread measured.
  private struct Measured: Decodable {
    var wallSeconds: Double?
    var cpuSeconds: Double?
    var delaySeconds: Double?
  }

  /// A tick of the kernel's, in seconds.
  private static let tick = 0.01

  /// A thread that ran for no longer had not begun what it stalled for.
  private static let hardlyRun = 0.02

  /// Plays `scenario` and prints a line, if anything of it is wrong or cannot be had.
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
      unavailable += 1
      print("unavailable=\(scenario.name) \(trouble.prefix(200))")
      return
    }
    let lines = text.split(separator: "\n")
    guard lines.count == 2, let measured = try? JSONDecoder().decode(Measured.self, from: Data(lines[0].utf8)),
      let report = try? JSONDecoder().decode(StallReport.self, from: Data(lines[1].utf8))
    else { return fail(scenario, "status \(process.terminationStatus): \(text.suffix(200)) \(trouble.suffix(200))") }
    judge(scenario.truth, measured, report)
  }

  private mutating func fail(_ scenario: Scenario, _ text: String) {
    played += 1
    print("trial=\(scenario.name) \(text)")
  }

  private mutating func judge(_ truth: Scenario.Truth, _ measured: Measured, _ report: StallReport) {
    played += 1
    var faults: [String] = []
    let allowed = Self.allowed(truth, measured)
    let cause = report.causes.first?.kind.rawValue ?? "none"
    if allowed.contains(cause) {
      right += 1
    } else {
      faults.append("is said to be \(cause), and is \(allowed.sorted().joined(separator: " or "))")
    }
    let culprit = report.culprit?.function.name
    if culprit == truth.culprit || (report.verdict == .noStacks && Self.neverRan(measured)) {
      culpritRight += 1
    } else {
      faults.append("blames \(culprit ?? "nobody") instead of \(truth.culprit ?? "nobody")")
    }
    if let holder = truth.holder {
      holders += 1
      let found = report.waitChains.first?.links.last?.culprit?.function.name
      if found == holder {
        holdersRight += 1
      } else {
        faults.append("held by \(found ?? "nobody") instead of \(holder)")
      }
    }
    let claims = cause == "deadlock" || report.waitChains.contains(where: \.isDeadlock)
    if claims, truth.cause != .deadlock {
      falseDeadlocks += 1
      faults.append("is said to be a deadlock")
    }
    let sum = report.causes.reduce(Duration.zero) { $0 + $1.time }
    if abs((sum - report.duration) / .seconds(1)) > Self.tick {
      wrongSums += 1
      faults.append("has causes of \(sum) in \(report.duration)")
    }
    guard !faults.isEmpty else { return }
    let causes = report.causes.map { cause in
      let subjects = cause.subjects.map(\.text).joined(separator: ", ")
      return "\(cause.kind.rawValue) \(Int((cause.share * 100).rounded())) %\(subjects.isEmpty ? "" : " (\(subjects))")"
    }
    print("trial=\(truth.name) \(faults.joined(separator: "; ")): \(causes.joined(separator: ", "))")
  }

  /// The primary causes that are right. What the thread itself measured tells whether it lacked a processor for most of the time, which
  /// is then why it stalled; about half of it may be told either way.
  private static func allowed(_ truth: Scenario.Truth, _ measured: Measured) -> Set<String> {
    guard truth.loadSensitive == true, let wall = measured.wallSeconds, let delay = measured.delaySeconds, wall > 0
    else {
      return [truth.cause.rawValue]
    }
    let part = delay / wall
    if part > 0.55 { return ["noProcessor"] }
    return part > 0.3 ? [truth.cause.rawValue, "noProcessor"] : [truth.cause.rawValue]
  }

  /// Whether the thread wanted a processor and had none, by its own measure: nothing can be known of it then.
  private static func neverRan(_ measured: Measured) -> Bool {
    guard let wall = measured.wallSeconds, let used = measured.cpuSeconds, let delay = measured.delaySeconds else {
      return false
    }
    return used < hardlyRun && delay > wall / 2
  }

  /// The facts, a line for each.
  func tell() {
    print("programs=\(played)\nright=\(right)\nculprit_right=\(culpritRight)\nholders=\(holders)")
    print("holders_right=\(holdersRight)\nfalse_deadlocks=\(falseDeadlocks)\nwrong_sums=\(wrongSums)")
    print("unavailable=\(unavailable)")
  }
}

/// Processes that keep processors busy, until they are let go.
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

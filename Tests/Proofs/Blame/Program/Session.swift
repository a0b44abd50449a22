import Culprit
import Foundation
import Synchronization

/// Runs trials and judges what is reported.
final class Session: Sendable {
  private let trials: [Trial]
  private let textDirectory: String?
  private let watchdog: Watchdog
  private let reports = Synchronization.Mutex<[String: StallReport]>([:])
  private let courses = Synchronization.Mutex<[Int: Trial.Course]>([:])
  private let next = Counter()

  /// - Parameters:
  ///   - trials: What is run.
  ///   - textDirectory: Where the reports' texts go.
  ///   - directory: Where stalls are saved.
  /// - Throws: What the watchdog's start throws.
  init(_ trials: [Trial], reports textDirectory: String?, directory: String?) throws {
    self.trials = trials
    self.textDirectory = textDirectory
    var configuration = Watchdog.Configuration(threshold: .seconds(1), interval: .milliseconds(50))
    configuration.storage.directory = directory
    // Each is looked at.
    configuration.reporting.perMinute = 1_000_000
    configuration.reporting.perCulprit = 1_000_000
    configuration.storage.notesCrashes = false
    watchdog = try Watchdog(configuration)
  }

  /// Runs all trials, `threads` at a time, and prints a line for each.
  func run(threads: Int) throws {
    watchdog.onStall { [self] report in reports.withLock { $0[report.source.name] = report } }
    let running = (0..<threads).map { _ in startThread { [self] in runTrials() } }
    for thread in running { pthread_join(thread, nil) }
    watchdog.stop()
    let found = reports.withLock { $0 }
    let courses = self.courses.withLock { $0 }
    for trial in trials {
      guard let course = courses[trial.number] else { continue }
      let report = found[trial.name]
      // What any thread ran meanwhile may be in the report, as another thread's.
      let present = courses.values.flatMap(\.parts).filter { $0.begin < course.end && $0.end > course.begin }
      let absent = Set(Kind.all.flatMap(\.identifiers)).subtracting(present.flatMap(\.kind.identifiers))
      let line = Judgement(trial, course, report: report, absent: absent).line
      print(line)
      guard let textDirectory, let report else { continue }
      // As `culprit report --width=1000` prints it, and what was the case.
      try report.text(width: 1000).write(
        toFile: "\(textDirectory)/\(trial.number).txt",
        atomically: false,
        encoding: .utf8
      )
    }
  }

  private func runTrials() {
    while true {
      let index = next.take()
      guard index < trials.count else { return }
      let trial = trials[index]
      do {
        let loop = try watchdog.watchLoop(named: trial.name, threshold: trial.threshold)
        let course = loop.withTurn { trial.stall() }
        Helper.joinAll()
        loop.stop()
        courses.withLock { $0[trial.number] = course }
      } catch {
        FileHandle.standardError.write(Data("\(trial.name): \(error)\n".utf8))
      }
    }
  }
}

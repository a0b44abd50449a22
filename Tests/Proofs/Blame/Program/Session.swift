import Culprit
import Foundation
import Judges
import Synchronization

/// Runs trials and judges the reports.
final class Session: Sendable {
  private let trials: [Trial]
  private let textDirectory: String?
  private let watchdog: Watchdog
  private let reports = Synchronization.Mutex<[String: StallReport]>([:])
  private let courses = Synchronization.Mutex<[Int: [BlameTruth.Part]]>([:])
  private let next = Counter()

  /// - Parameters:
  ///   - trials: The trials to run.
  ///   - textDirectory: A directory for the reports' texts, if any.
  ///   - directory: A directory for saved stalls, if any.
  /// - Throws: The watchdog's error if it cannot start.
  init(_ trials: [Trial], reports textDirectory: String?, directory: String?) throws {
    self.trials = trials
    self.textDirectory = textDirectory
    var configuration = Watchdog.Configuration(threshold: .seconds(1), interval: .milliseconds(50))
    configuration.storage.directory = directory
    // No rate limits: every report is judged.
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
    watchdog.stop(patience: .seconds(60))
    let found = reports.withLock { $0 }
    let courses = self.courses.withLock { $0 }
    for trial in trials {
      guard let course = courses[trial.number], let begin = course.first?.begin, let end = course.last?.end else {
        continue
      }
      let report = found[trial.name]
      // A report can include concurrent work of other threads.
      let present = courses.values.joined().filter { $0.begin < end && $0.end > begin }
      let truth = BlameTruth(
        number: trial.number,
        parts: course,
        isDivided: trial.parts[0].share < 0.5,
        absent: Set(Kind.all.flatMap(\.identifiers)).subtracting(present.flatMap(\.identifiers)),
        mergeable: Set(Kind.alike.map(\.name)),
        dependency: Kind.squeezers[trial.parts[0].kind.name]
      )
      print(BlameJudgement(truth, report: report).line)
      guard let textDirectory, let report else { continue }
      // The output of `culprit report --width=1000`.
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

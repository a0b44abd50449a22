import CCulpritLinux
import CulpritBlackBox
import FaultyDisks
import Glibc
import Judges

/// Kills a service at random times, half of the times during a stall, and judges the report of the next launch.
struct BlackBoxSoak {
  var kills: Int
  /// Determines the random times of kills.
  var seed: UInt64

  /// The culprit that the next launch must name.
  private static let culprit = "holdUp(_:)"

  /// Runs the soak test and prints its results.
  ///
  /// - Parameter figures: Receives the results.
  /// - Throws: ``ProofError`` or ``SpawnError`` when the service cannot be started.
  func run(_ figures: Figures) throws {
    figures.note("seed \(seed)")
    let directory = "/tmp/culprit-soak-\(getpid())"
    defer { rmdir(directory) }
    var random = seed
    var (hangs, reported, falseHangs, unreported) = (0, 0, 0, 0)
    var worst: Int64 = 0
    for number in 0..<kills {
      let isStalled = number % 2 == 1
      random = random &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      let share = UInt32(truncatingIfNeeded: random >> 33)
      let service = try ServiceProcess(besideThis: "blackbox-process", [directory, isStalled ? "stall" : "turn"])
      guard let began = service.line()?.split(separator: "=").last.flatMap({ Int64($0) }) else {
        throw ProofError("the service did not begin")
      }
      // Past the threshold of 200 ms, with time for the record to reach the disk on a busy machine.
      usleep(isStalled ? 500_000 + share % 1_000_000 : share % 500_000)
      let lasted = Int64(clinux_clock_ns()) - began
      kill(service.process, SIGKILL)
      service.end()
      let launch = try ServiceProcess(besideThis: "blackbox-process", [directory, "report"])
      let text = launch.rest()
      launch.end()
      let judged = KillJudgement(text, process: service.process, culprit: Self.culprit)
      if !judged.isRunReported { unreported += 1 }
      if isStalled {
        hangs += 1
        if let duration = judged.duration {
          reported += 1
          worst = max(worst, abs(lasted - duration))
        }
      } else {
        falseHangs += judged.hangs
      }
      empty(directory)
    }
    figures.print("blackbox.kills", Double(kills), "processes")
    figures.print("blackbox.hangs", Double(hangs), "processes")
    figures.print("blackbox.reported", Double(reported), "hangs", in: Double(hangs)...Double(hangs))
    figures.print("blackbox.false_hangs", Double(falseHangs), "processes", in: 0...0)
    figures.print("blackbox.unreported", Double(unreported), "processes", in: 0...0)
    figures.print("blackbox.duration_error_max", Double(worst) / 1e6, "ms", in: 0...250)
  }

  private func empty(_ directory: String) {
    let names = (try? BlackBoxDirectory(path: directory).names([".run", ".told", ".stall"])) ?? []
    for name in names { unlink("\(directory)/\(name)") }
  }
}

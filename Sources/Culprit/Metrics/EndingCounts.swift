import CulpritReports

final class EndingCounts: Sendable {
  static let shared = EndingCounts()

  /// Endings shown even with count 0.
  private static let known: [Watchdog.PreviousRun.Ending] = [
    .cleanExit, .terminated, .fatalHang, .killed, .crash, .outOfMemory, .possiblyOutOfMemory, .machineGone,
  ]

  private let counts = Mutex<[Watchdog.PreviousRun.Ending: Int]>([:])

  func startOver() { counts.startOver([:]) }

  func add(_ ending: Watchdog.PreviousRun.Ending) { counts.withLock { $0[ending, default: 0] += 1 } }

  var all: [Watchdog.PreviousRun.Ending: Int] {
    let none = Dictionary(uniqueKeysWithValues: Self.known.map { ($0, 0) })
    return counts.withLock { none.merging($0) { $1 } }
  }
}

import CulpritStallRecord
import Glibc

extension BlackBoxDirectory {
  /// For how long services were watched that have left the records of their runs here, all runs together.
  ///
  /// - Parameters:
  ///   - now: The end of runs that go on.
  ///   - counted: How much of the time between two moments counts.
  /// - Returns: The time; `nil` where there is no record, or where that of a run cannot be read or does not say when it ended:
  ///   it was killed.
  package func watchedTime(until now: WallTime, _ counted: (WallTime, WallTime) -> Duration) -> Duration? {
    guard let names = try? names([".run", ".told"]), !names.isEmpty else { return nil }
    var watched = Duration.zero
    for name in names {
      guard let descriptor = open(name, O_RDONLY) else { return nil }
      defer { close(descriptor) }
      guard let (record, isRunning) = look(descriptor),
        let end = record.ended ?? record.terminated ?? (isRunning ? now : nil)
      else {
        return nil
      }
      watched += counted(record.since, end)
    }
    return watched
  }
}

import CulpritStallRecord
import Glibc

extension BlackBoxDirectory {
  /// Returns the total time for which the services with records in this directory were watched.
  ///
  /// Runs that continue count until `now`. `counted` returns the part of an interval that counts. Returns
  /// `nil` if there is no record, a record is unreadable, or a finished run has not recorded its end.
  package func watchedTime(until now: WallTime, _ counted: (WallTime, WallTime) -> Duration) -> Duration? {
    guard let names = try? names([".run", ".told"]), !names.isEmpty else { return nil }
    var watched = Duration.zero
    for name in names {
      guard let descriptor = open(name, O_RDONLY) else { return nil }
      defer { close(descriptor) }
      guard let (record, isRunning) = recordAndState(descriptor),
        let end = record.ended ?? record.terminated ?? (isRunning ? now : nil)
      else {
        return nil
      }
      watched += counted(record.since, end)
    }
    return watched
  }
}

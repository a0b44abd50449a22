import CulpritStallRecord
import Glibc

extension BlackBoxDirectory {
  /// Returns the total time for which the services with records in this directory were watched.
  ///
  /// - Parameters:
  ///   - now: The end of runs that continue.
  ///   - counted: Returns the part of the time between two moments that counts.
  /// - Returns: The total; `nil` if there is no record, or if a record is unreadable or has no end because its run
  ///   was killed.
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

import CulpritStallRecord
import Glibc

/// All files that service runs have left in a directory, as seen by another process.
package struct Inventory: Sendable {
  /// In order of time.
  package private(set) var runs: [Run] = []
  /// Stall files without a run record, in order of time.
  package private(set) var otherStalls: [Stalls] = []
  package private(set) var problems: [String] = []

  package struct Run: Sendable {
    package let name: String
    package let record: RunRecord
    package let isRunning: Bool
    /// The reported or current verdict; `nil` while the run continues.
    package let verdict: RunVerdict?
    /// In order of time.
    package let stalls: [Stalls]
  }

  /// Stalls without samples.
  package struct Stalls: Sendable {
    package let name: String
    /// The duration of each stall, as far as it is known, and whether the stall has ended.
    package let stalls: [(duration: Duration, hasEnded: Bool)]
    /// `nil` if the file has no stall.
    fileprivate let began: WallTime?

    fileprivate init(name: String, _ stalls: [Stall]) {
      self.name = name
      self.stalls = stalls.map { ($0.duration, $0.hasEnded) }
      began = stalls.lazy.map(\.began).min()
    }
  }

  private struct Owner: Hashable {
    var process: Int32
    var since: WallTime
  }

  /// The calling process must not have a file in the directory, because closing the file would release the lock on it.
  package init(path: String) throws(BlackBoxError) {
    let box = BlackBoxDirectory(path: path)
    var records: [(name: String, record: RunRecord, isRunning: Bool)] = []
    for name in try box.names([".run", ".told"]) {
      problems += Self.problems(name, in: box) { descriptor in
        guard let (record, isRunning) = box.recordAndState(descriptor) else {
          return ["it is not the record of a run, or it is damaged"]
        }
        records.append((name, record, isRunning))
        return []
      }
    }
    var stalls: [Owner: [Stalls]] = [:]
    var others: [Stalls] = []
    let owners = Set(records.map { Owner(process: $0.record.identity.process, since: $0.record.since) })
    // Includes renamed files, like the commands that read stall files.
    for name in try box.names([".stall"], beginningWith: "") {
      problems += Self.problems(name, in: box) { descriptor in
        guard let bytes = SmallFile.bytes(descriptor, max: BlackBoxDirectory.stallBytesMax) else {
          return [String(cString: strerror(errno))]
        }
        do {
          let file = try StallFile(bytes: bytes)
          let found = Stalls(name: name, file.recording.stalls)
          let owner = file.recording.process.map { Owner(process: $0.id, since: $0.watchedSince) }
          if let owner, owners.contains(owner) {
            stalls[owner, default: []].append(found)
          } else {
            others.append(found)
          }
          return file.problems.map(\.description)
        } catch {
          return ["\(error)"]
        }
      }
    }
    otherStalls = Self.inOrderOfTime(others)
    let latest = Dictionary(records.map { ($0.record.identity, $0.record.since) }, uniquingKeysWith: max)
    runs = records.map { name, record, isRunning in
      let own = Self.inOrderOfTime(stalls[Owner(process: record.identity.process, since: record.since)] ?? [])
      let wasReplaced = record.identity == box.own || latest[record.identity].map { $0 > record.since } == true
      let judged = box.verdict(of: record, box.stalls(of: record), wasReplaced: wasReplaced)
      return Run(
        name: name,
        record: record,
        isRunning: isRunning,
        verdict: record.told.flatMap { RunVerdict(name: $0) } ?? (isRunning ? nil : judged),
        stalls: own
      )
    }
  }

  /// Sorts by the recorded time, because renamed files lack the time in their names.
  private static func inOrderOfTime(_ files: [Stalls]) -> [Stalls] {
    func key(_ file: Stalls) -> (UInt64, String) { (file.began?.nanosecondsSince1970 ?? .max, file.name) }
    return files.ordered { key($0) < key($1) }
  }

  /// Returns the problems that `body` finds, or the reason why the file cannot be opened.
  private static func problems(_ name: String, in box: BlackBoxDirectory, _ body: (Int32) -> [String]) -> [String] {
    errno = 0
    guard let descriptor = box.open(name, O_RDONLY) else {
      let reason = errno == 0 || errno == ELOOP ? "it is a symbolic link, or missing" : String(cString: strerror(errno))
      return ["\(box.path)/\(name): \(reason)"]
    }
    defer { close(descriptor) }
    return body(descriptor).map { "\(box.path)/\(name): \($0)" }
  }
}

import CulpritStallRecord
import Glibc

/// Everything that runs of services have left in a directory, for who looks at it from outside.
package struct Inventory: Sendable {
  /// The runs, in order of time.
  package private(set) var runs: [Run] = []
  /// Files with stalls of runs that are not there, in order of time.
  package private(set) var otherStalls: [Stalls] = []
  /// A sentence for each file that cannot be read, or only in part.
  package private(set) var problems: [String] = []

  /// A run that left something.
  package struct Run: Sendable {
    /// The name of its file.
    package let name: String
    /// What the file says.
    package let record: RunRecord
    /// Whether it goes on.
    package let isRunning: Bool
    /// How it ended: as it was told, or judged now. `nil` while it goes on.
    package let verdict: RunVerdict?
    /// Its files with stalls, in order of time.
    package let stalls: [Stalls]
  }

  /// What a `.stall` file says of its stalls, without their samples.
  package struct Stalls: Sendable {
    /// The name of the file.
    package let name: String
    /// How long each of them lasted, as far as is known, and whether it ended.
    package let stalls: [(duration: Duration, hasEnded: Bool)]
    /// When the first of them began; `nil` where there is none.
    fileprivate let began: WallTime?

    fileprivate init(name: String, _ stalls: [Stall]) {
      self.name = name
      self.stalls = stalls.map { ($0.duration, $0.hasEnded) }
      began = stalls.lazy.map(\.began).min()
    }
  }

  /// Which run a file with stalls belongs to.
  private struct Owner: Hashable {
    var process: Int32
    var since: WallTime
  }

  /// What is in the directory at `path`.
  ///
  /// Not for a process that has a file there itself: closing what it has locked takes the lock away.
  ///
  /// - Throws: Why the directory cannot be read.
  package init(path: String) throws(BlackBoxError) {
    let box = BlackBoxDirectory(path: path)
    var records: [(name: String, record: RunRecord, isRunning: Bool)] = []
    for name in try box.names([".run", ".told"]) {
      problems += Self.problems(name, in: box) { descriptor in
        guard let (record, isRunning) = box.look(descriptor) else {
          return ["it is not the record of a run, or it is damaged"]
        }
        records.append((name, record, isRunning))
        return []
      }
    }
    var stalls: [Owner: [Stalls]] = [:]
    var others: [Stalls] = []
    let owners = Set(records.map { Owner(process: $0.record.identity.process, since: $0.record.since) })
    // Also those that somebody has given another name, as commands that read stalls do.
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
      let judged = RunVerdict(
        of: record,
        hasOpenStall: box.stalls(of: record).hasOpen,
        boot: box.boot,
        memoryKills: MemoryKills.change(since: record.memoryKills),
        wasReplaced: record.identity == box.own || latest[record.identity].map { $0 > record.since } == true
      )
      return Run(
        name: name,
        record: record,
        isRunning: isRunning,
        verdict: record.told.flatMap { RunVerdict(name: $0) } ?? (isRunning ? nil : judged),
        stalls: own
      )
    }
  }

  /// By the stalls themselves: only names of a watchdog's tell when they began.
  private static func inOrderOfTime(_ files: [Stalls]) -> [Stalls] {
    func key(_ file: Stalls) -> (UInt64, String) { (file.began?.nanosecondsSince1970 ?? .max, file.name) }
    return files.sorted { key($0) < key($1) }
  }

  /// Lets `body` read the file `name`. Returns what it finds wrong, or why the file cannot be read.
  private static func problems(_ name: String, in box: BlackBoxDirectory, _ body: (Int32) -> [String]) -> [String] {
    errno = 0
    guard let descriptor = box.open(name, O_RDONLY) else {
      let reason = errno == 0 || errno == ELOOP ? "it is a link, or no file at all" : String(cString: strerror(errno))
      return ["\(box.path)/\(name): \(reason)"]
    }
    defer { close(descriptor) }
    return body(descriptor).map { "\(box.path)/\(name): \($0)" }
  }
}

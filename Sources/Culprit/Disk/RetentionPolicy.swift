import CCulpritLinux
import CulpritBlackBox
import CulpritStallRecord
import Glibc

/// Keeps a directory within its limits. Used only by the disk thread.
///
/// Keeps the files of live runs and the last unreported hang. Ignores symbolic links, special files and files of other
/// users.
struct RetentionPolicy: Sendable {
  let directory: String
  let limits: Configuration.Storage
  /// The name of this run's file, which is never opened here: closing it would release the lock.
  let own: String?
  /// The boot time on the wall clock, computed once, so setting the clock forward does not age files.
  private let clockDistance = Int64(bitPattern: clinux_clock_wall_ns() &- clinux_clock_boot_ns())

  private struct Entry {
    var name: String
    var bytes: Int
    var isTooOld: Bool
    var isFatal: Bool
  }

  private struct Unit {
    enum Rank: Int {
      case ended
      /// A run that was killed, or a stall without an end whose run has been reported or removed.
      case fatal
      /// An unreported run that was killed during stalls, with those stalls.
      case unreportedHang
    }

    var rank: Rank
    var name: String
    var entries: [Entry] = []

    var bytes: Int { entries.reduce(0) { $0.saturatingSum($1.bytes) } }
    var isTooOld: Bool { entries.allSatisfy(\.isTooOld) }
  }

  /// The longest time until a new file receives its final name, in seconds.
  private static let unnamedAge = 3600

  func enforce() {
    let box = BlackBoxDirectory(path: directory, owner: geteuid())
    guard let names = try? box.names([".run", ".told", ".stall", ".new"]) else { return }
    var live: [String] = []
    var unreported: [Entry] = []
    var stalls: [Entry] = []
    var others: [Entry] = []
    // This runs after every stall, so no file is opened while the directory is within its limits.
    let files = names.filter { $0 != own }.compactMap { entry($0, in: box) }
    guard
      files.contains(where: { $0.isTooOld }) || files.count > limits.filesMax
        || files.reduce(0, { $0.saturatingSum($1.bytes) }) > limits.bytesMax
    else { return }
    if let own { live.append(own) }
    for var entry in files {
      let name = entry.name
      if name.hasSuffix(".stall") {
        entry.isFatal = isOpen(name, in: box)
        stalls.append(entry)
      } else if let state = state(name, in: box) {
        entry.isFatal = state != .ended
        if name.hasSuffix(".told") || state == .ended {
          others.append(entry)
        } else if state == .live {
          live.append(name)
        } else {
          unreported.append(entry)
        }
      }
    }
    let runs = RunNames(live + (unreported + others).map(\.name))
    let known = Set(unreported.map(\.name))
    var units: [Unit] = []
    var hangs: [String: Unit] = [:]
    for entry in stalls + unreported + others {
      let isStall = entry.name.hasSuffix(".stall")
      let run = isStall && entry.isFatal ? runs.run(of: entry.name) : nil
      if let run, live.contains(run) { continue }
      if let run, known.contains(run) {
        hangs[run, default: Unit(rank: .unreportedHang, name: run)].entries.append(entry)
      } else {
        units.append(Unit(rank: entry.isFatal ? .fatal : .ended, name: entry.name, entries: [entry]))
      }
    }
    units.removeAll { unit in
      guard let entry = unit.entries.first else { return true }
      return hangs[entry.name]?.entries.append(entry) != nil
    }
    // The newest hang is kept regardless of the limits, because the next launch reports it.
    if let newest = hangs.keys.max() { hangs[newest] = nil }
    enforce(units + hangs.values)
  }

  private func enforce(_ units: [Unit]) {
    for unit in units where unit.isTooOld { remove(unit) }
    let kept = units.filter { !$0.isTooOld }.ordered { ($0.rank.rawValue, $0.name) < ($1.rank.rawValue, $1.name) }
    var bytes = kept.reduce(0) { $0.saturatingSum($1.bytes) }
    var count = kept.reduce(0) { $0 + $1.entries.count }
    for unit in kept {
      guard bytes > limits.bytesMax || count > limits.filesMax else { break }
      remove(unit)
      bytes = bytes.saturatingDifference(unit.bytes)
      count -= unit.entries.count
    }
  }

  private func remove(_ unit: Unit) { for entry in unit.entries { remove(entry.name) } }

  /// Returns `nil` for a file without its final name, and removes an old one.
  private func entry(_ name: String, in box: BlackBoxDirectory) -> Entry? {
    guard let information = box.information(name) else { return nil }
    let now = Int64(bitPattern: clinux_clock_boot_ns()).saturatingSum(clockDistance) / 1_000_000_000
    let age = max(0, now.saturatingDifference(Int64(information.st_mtim.tv_sec)))
    guard !name.hasSuffix(".new") else {
      if age > Self.unnamedAge { remove(name) }
      return nil
    }
    return Entry(
      name: name,
      bytes: Int(information.st_size),
      isTooOld: .seconds(age) > limits.ageMax,
      isFatal: false
    )
  }

  private enum RunState {
    case live, over, ended
  }

  private func state(_ name: String, in box: BlackBoxDirectory) -> RunState? {
    guard let descriptor = box.open(name, O_RDONLY) else { return nil }
    defer { close(descriptor) }
    guard let (record, isRunning) = box.recordAndState(descriptor) else { return nil }
    if record.ended != nil { return .ended }
    return name.hasSuffix(".run") && isRunning ? .live : .over
  }

  /// The state of a stall is near the beginning of its file.
  private func isOpen(_ name: String, in box: BlackBoxDirectory) -> Bool {
    guard let descriptor = box.open(name, O_RDONLY) else { return false }
    defer { close(descriptor) }
    var head = [UInt8](repeating: 0, count: 16 << 10)
    let count = pread(descriptor, &head, head.count, 0)
    return count <= 0 || !StallFile.hasEnd(Array(head[..<count]))
  }

  private func remove(_ name: String) { unlink("\(directory)/\(name)") }
}

enum FileNames {
  static func belongs(_ stall: String, to run: String) -> Bool {
    let (one, other) = (parts(stall), parts(run))
    return one.process == other.process && one.time >= other.time
  }

  fileprivate static func parts(_ name: String) -> (process: String, time: String) {
    let parts = name.split(separator: "-")
    guard parts.count >= 3 else { return ("", "") }
    return (String(parts[2].prefix { $0.isNumber }), String(parts[1]))
  }
}

private struct RunNames {
  private let runs: [String: [(time: String, name: String)]]

  init(_ names: [String]) {
    var runs: [String: [(time: String, name: String)]] = [:]
    for name in names.sorted() {
      let (process, time) = FileNames.parts(name)
      runs[process, default: []].append((time, name))
    }
    self.runs = runs
  }

  /// Returns the last run that began before file `stall` and has its process id.
  func run(of stall: String) -> String? {
    let (process, time) = FileNames.parts(stall)
    return runs[process]?.last { $0.time <= time }?.name
  }
}

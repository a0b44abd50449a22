import CulpritBlackBox
import CulpritStallRecord
import Glibc

/// Keeps a directory within its limits. On the disk thread.
///
/// Links, files of other users and what is no plain file neither count nor go.
struct RetentionPolicy: Sendable {
  let directory: String
  let limits: Configuration.Storage
  /// The file of this run: it is not even opened, because closing it would take its lock away.
  let own: String?

  private struct Entry {
    var name: String
    var bytes: Int
    var isTooOld: Bool
    /// Whether it tells of something that did not end well.
    var isFatal: Bool
  }

  /// How long a file may take until it has its name.
  private static let unnamedAge = 3600

  /// Removes what is too much.
  func enforce() {
    let box = BlackBoxDirectory(path: directory, owner: geteuid())
    guard let names = try? box.names([".run", ".told", ".stall", ".new"]) else { return }
    // Runs that go on, and those that are over and have not been told of.
    var live: [String] = []
    var untold: [Entry] = []
    var stalls: [Entry] = []
    var others: [Entry] = []
    // Nothing is opened while there is not too much, whatever it is: this is done after every stall.
    let files = names.filter { $0 != own }.compactMap { entry($0, in: box) }
    guard
      files.contains(where: { $0.isTooOld }) || files.count > limits.filesMax
        || files.reduce(0, { $0 + $1.bytes }) > limits.bytesMax
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
          untold.append(entry)
        }
      }
    }
    // A hang that nobody has been told of stays, with its run; a service that is killed over and over may leave any
    // number of the others.
    let open = stalls.filter(\.isFatal).map(\.name)
    let hung = untold.map(\.name).filter { run in open.contains { FileNames.belongs($0, to: run) } }
    let kept = (stalls + untold + others).sorted { $0.name < $1.name }
      .filter { entry in
        if hung.contains(entry.name) { return false }
        if entry.isFatal, entry.name.hasSuffix(".stall"),
          (live + hung).contains(where: { FileNames.belongs(entry.name, to: $0) })
        {
          return false
        }
        if entry.isTooOld { remove(entry.name) }
        return !entry.isTooOld
      }
    var bytes = kept.reduce(0) { $0 + $1.bytes }
    var count = kept.count
    for entry in kept.filter({ !$0.isFatal }) + kept.filter({ $0.isFatal }) {
      guard bytes > limits.bytesMax || count > limits.filesMax else { break }
      remove(entry.name)
      bytes -= entry.bytes
      count -= 1
    }
  }

  /// The file `name`, as far as it can be known without opening it. Removes one that has not got its name in time.
  private func entry(_ name: String, in box: BlackBoxDirectory) -> Entry? {
    guard let information = box.information(name) else { return nil }
    let age = max(0, time(nil) - information.st_mtim.tv_sec)
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

  /// What has become of a run.
  private enum RunState {
    case live, over, ended
  }

  /// What the file `name` of a run says of it; `nil` when it cannot be read.
  private func state(_ name: String, in box: BlackBoxDirectory) -> RunState? {
    guard let descriptor = box.open(name, O_RDONLY) else { return nil }
    defer { close(descriptor) }
    guard let (record, isRunning) = box.look(descriptor) else { return nil }
    if record.ended != nil { return .ended }
    return name.hasSuffix(".run") && isRunning ? .live : .over
  }

  /// Whether the stall that the file `name` has has no end. A file with one stall, as the recorder writes it, says it
  /// in its beginning, and one of an older version at its end.
  private func isOpen(_ name: String, in box: BlackBoxDirectory) -> Bool {
    guard let descriptor = box.open(name, O_RDONLY) else { return false }
    defer { close(descriptor) }
    let length = 16 << 10
    let size = lseek(descriptor, 0, SEEK_END)
    return ![0, max(0, size - off_t(length))]
      .contains { place in
        var part = [UInt8](repeating: 0, count: length)
        let count = pread(descriptor, &part, length, place)
        return count > 0 && StallFile.hasEnd(Array(part[..<count]))
      }
  }

  private func remove(_ name: String) { unlink("\(directory)/\(name)") }
}

/// What names of files tell.
enum FileNames {
  /// Whether the stall of the file `stall` may be of the run of the file `run`:
  /// "culprit-20261120T102351.204Z-4242-1.stall" of "culprit-20261120T102340.000Z-4242.run".
  static func belongs(_ stall: String, to run: String) -> Bool {
    let (one, other) = (parts(stall), parts(run))
    return one.process == other.process && one.time >= other.time
  }

  /// The process id and the time in a name.
  private static func parts(_ name: String) -> (process: String, time: String) {
    let parts = name.split(separator: "-")
    guard parts.count >= 3 else { return ("", "") }
    return (String(parts[2].prefix { $0.isNumber }), String(parts[1]))
  }
}

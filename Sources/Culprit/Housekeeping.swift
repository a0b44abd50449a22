import BlackBox
import Glibc
import StallRecord

/// Keeps a directory within its limits. On the disk thread.
///
/// Links, files of other users and what is no plain file neither count nor go.
struct Housekeeping: Sendable {
  let directory: String
  let limits: DirectoryLimits
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
  func tidy() {
    let box = BlackBoxDirectory(path: directory, owner: geteuid())
    guard let names = try? box.names([".run", ".told", ".stall", ".new"]) else { return }
    // Only of runs that go on, or that nobody has been told of.
    var unread: [(process: String, time: String)] = []
    var entries: [Entry] = []
    for name in names {
      guard name != own else {
        unread.append(parts(name))
        continue
      }
      guard let information = box.information(name) else { continue }
      let age = max(0, time(nil) - information.st_mtim.tv_sec)
      var entry = Entry(
        name: name,
        bytes: Int(information.st_size),
        isTooOld: .seconds(age) > limits.age,
        isFatal: false
      )
      if name.hasSuffix(".new") {
        if age > Self.unnamedAge { remove(name) }
        continue
      }
      if !name.hasSuffix(".stall") {
        guard let record = record(name, in: box) else { continue }
        if name.hasSuffix(".run"), record.ended == nil {
          unread.append(parts(name))
          continue
        }
        entry.isFatal = record.ended == nil
      }
      entries.append(entry)
    }
    var kept: [Entry] = []
    for var entry in entries {
      if entry.name.hasSuffix(".stall") {
        entry.isFatal = isOpen(entry.name, in: box)
        let (process, time) = parts(entry.name)
        if entry.isFatal, unread.contains(where: { $0.process == process && $0.time <= time }) { continue }
      }
      if entry.isTooOld { remove(entry.name) } else { kept.append(entry) }
    }
    var bytes = kept.reduce(0) { $0 + $1.bytes }
    var count = kept.count
    for entry in kept.filter({ !$0.isFatal }) + kept.filter({ $0.isFatal }) {
      guard bytes > limits.bytes || count > limits.files else { break }
      remove(entry.name)
      bytes -= entry.bytes
      count -= 1
    }
  }

  /// The process id and the time in a name: "culprit-20261120T102351.204Z-4242-1.stall", "culprit-20261120T102340.000Z-4242.run".
  private func parts(_ name: String) -> (process: String, time: String) {
    let parts = name.split(separator: "-")
    guard parts.count >= 3 else { return ("", "") }
    return (String(parts[2].prefix { $0.isNumber }), String(parts[1]))
  }

  private func record(_ name: String, in box: BlackBoxDirectory) -> RunRecord? {
    guard let descriptor = box.open(name, O_RDONLY) else { return nil }
    defer { close(descriptor) }
    return box.record(descriptor)
  }

  /// Whether the stall that the file `name` has has no end. A file with one stall, as the recorder writes it, ends with that.
  private func isOpen(_ name: String, in box: BlackBoxDirectory) -> Bool {
    guard let descriptor = box.open(name, O_RDONLY) else { return false }
    defer { close(descriptor) }
    let length = StallFileWriter.endBytes
    let size = lseek(descriptor, 0, SEEK_END)
    var tail = [UInt8](repeating: 0, count: length)
    guard size >= off_t(length), pread(descriptor, &tail, length, size - off_t(length)) == length else { return true }
    return !StallFileWriter.isEnd(tail)
  }

  private func remove(_ name: String) { unlink("\(directory)/\(name)") }
}

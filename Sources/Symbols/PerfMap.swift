import CulpritStallRecord
import Glibc

/// Names of code from a just-in-time compiler. Compilers write `/tmp/perf-PID.map` for perf, with a line `START SIZE
/// NAME` for each function (tools/perf/Documentation/jit-interface.txt).
struct PerfMap {
  private static let bytesMax = 64 << 20

  private struct Entry {
    var range: AddressRange
    var name: String
  }

  let path: String
  private let entries: [Entry]

  /// Reads the map of process `id`, if any. The file must belong to root or this process's user, because all users can
  /// write to `/tmp`.
  init?(process id: Int32) {
    let path = "/tmp/perf-\(id).map"
    var information = stat()
    guard lstat(path, &information) == 0, information.st_mode & S_IFMT == S_IFREG,
      information.st_uid == 0 || information.st_uid == geteuid(),
      let bytes = ProcessFiles.readWhole(path, limit: Self.bytesMax)
    else { return nil }
    self.init(text: bytes, path: path)
  }

  /// If two lines have one address, the last line is valid, because the compiler has replaced the first function.
  init(text: [UInt8], path: String) {
    self.path = path
    var entries: [Entry] = []
    for line in text.split(separator: UInt8(ascii: "\n")) {
      let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 2, omittingEmptySubsequences: true)
      guard fields.count == 3, let start = Self.number(fields[0]), let size = Self.number(fields[1]), size > 0 else {
        continue
      }
      let (end, overflow) = start.addingReportingOverflow(size)
      guard !overflow else { continue }
      entries.append(
        Entry(range: AddressRange(start: start, end: end), name: String(decoding: fields[2], as: UTF8.self))
      )
    }
    var latest: [UInt64: Entry] = [:]
    for entry in entries { latest[entry.range.start] = entry }
    self.entries = latest.values.sorted { $0.range.start < $1.range.start }
  }

  func function(at address: RuntimeAddress) -> (name: String, start: UInt64)? {
    let place = entries.partitioningIndex { $0.range.start > address.value } - 1
    guard place >= 0, entries[place].range.contains(address.value) else { return nil }
    return (entries[place].name, entries[place].range.start)
  }

  private static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
    var text = Substring(decoding: digits, as: UTF8.self)
    if text.hasPrefix("0x") { text = text.dropFirst(2) }
    return UInt64(text, radix: 16)
  }
}

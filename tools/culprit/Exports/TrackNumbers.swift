/// Assigns unique numbers to processes and threads. A process keeps its PID if the PID is unique in the export. In
/// containers, most PIDs are 1.
struct TrackNumbers<Key: Hashable> {
  /// The first invented number, larger than all PIDs (PID_MAX_LIMIT).
  private static var firstInvented: Int { 1 << 22 + 1 }

  private var numbers: [Key: Int] = [:]
  private var used: Set<Int> = []
  private var next = Self.firstInvented

  /// A new key gets `wanted` unless the number is taken.
  mutating func number(of key: Key, wanted: Int) -> (number: Int, isNew: Bool) {
    if let number = numbers[key] { return (number, false) }
    var number = wanted
    if wanted <= 0 || used.contains(wanted) {
      number = next
      next += 1
    }
    used.insert(number)
    numbers[key] = number
    return (number, true)
  }
}

struct ProcessKey: Hashable {
  var id: Int32
  var since: UInt64

  init(_ recording: ExportedRecording) {
    id = recording.process?.id ?? 0
    since = recording.process?.watchedSince.nanosecondsSince1970 ?? 0
  }
}

struct ThreadKey: Hashable {
  var process: ProcessKey
  var stall: String
  var thread: Int32
}

/// Numbers for processes and threads in formats that know them by these alone. A process keeps its own number, unless another one in
/// the same export has it: in containers most are number 1.
struct TrackNumbers<Key: Hashable> {
  /// Above every number that the kernel gives (PID_MAX_LIMIT).
  private static var firstInvented: Int { 1 << 22 + 1 }

  private var numbers: [Key: Int] = [:]
  private var used: Set<Int> = []
  private var next = Self.firstInvented

  /// The number of `key`, and whether it is new: `wanted` if nobody else has that.
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

/// What tells processes apart.
struct ProcessKey: Hashable {
  var id: Int32
  var since: UInt64

  init(_ recording: ExportedRecording) {
    id = recording.process?.id ?? 0
    since = recording.process?.watchedSince.nanosecondsSince1970 ?? 0
  }
}

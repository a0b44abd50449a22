import CulpritStallRecord

/// Writes one line per stack: the functions, outermost first, separated by semicolons, and the time in milliseconds.
///
/// The first function is the source, which combines several stalls in one graph. The times add up to the stall's time.
struct CollapsedWriter: ExportWriter {
  static let includesBlame = false

  private let sink: ByteSink
  /// Paths as numbers of names, in the order of first occurrence.
  private var order: [[Int]] = []
  private var milliseconds: [[Int]: UInt64] = [:]
  private var names = Numbered<String>()
  private var numbersOfFrames: [Int?] = []

  init(_ sink: ByteSink) { self.sink = sink }

  mutating func begin(_ recording: ExportedRecording) { numbersOfFrames = [] }

  mutating func add(_ stall: ExportedStall) {
    var nanoseconds: [Int: UInt64] = [:]
    for track in stall.profile.tracks {
      for segment in track.segments { nanoseconds[segment.stack, default: 0] += segment.weight }
    }
    // Sorted for reproducible exports.
    let weights = nanoseconds.sorted { $0.key < $1.key }
    let root = number(stall.source)
    for (weight, whole) in zip(weights, Self.rounded(weights.map(\.value))) where whole > 0 {
      let path = [root] + stall.recording.stacks.stacks[weight.key].map { number($0, stall.recording) }
      if milliseconds[path] == nil { order.append(path) }
      milliseconds[path, default: 0] += whole
    }
  }

  mutating func finish() throws {
    for path in order {
      for (place, name) in path.enumerated() { try sink.write((place == 0 ? "" : ";") + names.all[name]) }
      try sink.write(" \(milliseconds[path] ?? 0)\n")
    }
    try sink.flush()
  }

  /// Rounds to whole milliseconds whose sum equals the rounded total.
  static func rounded(_ nanoseconds: [UInt64]) -> [UInt64] {
    let unit: UInt64 = 1_000_000
    var whole = nanoseconds.map { $0 / unit }
    let total = (nanoseconds.reduce(0, +) + unit / 2) / unit
    let missing = Int(total - min(total, whole.reduce(0, +)))
    let byRemainder = nanoseconds.indices.sorted {
      (nanoseconds[$1] % unit, $0) < (nanoseconds[$0] % unit, $1)
    }
    for place in byRemainder.prefix(missing) { whole[place] += 1 }
    return whole
  }

  private mutating func number(_ frame: Int, _ recording: ExportedRecording) -> Int {
    if numbersOfFrames.count <= frame {
      let count = recording.stacks.frames.count - numbersOfFrames.count
      numbersOfFrames += [Int?](repeating: nil, count: count)
    }
    if let number = numbersOfFrames[frame] { return number }
    let found = number(recording.name(frame))
    numbersOfFrames[frame] = found
    return found
  }

  private mutating func number(_ name: String) -> Int {
    // Semicolons separate functions, but occur in names such as Rust's "[u8; 4]".
    names.number(name.utf8.contains(UInt8(ascii: ";")) ? String(name.map { $0 == ";" ? ":" : $0 }) : name)
  }
}

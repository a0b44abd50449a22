import CulpritBlame
import CulpritStallRecord

/// Writes a profile in nanoseconds for each thread of each stall, and a profile of the other threads in which each
/// thread counts 1.
///
/// All profiles share the frames, which are complete only after the last stall and come last. Each function is one
/// frame, with the line at which it took most of its time.
struct SpeedscopeWriter: ExportWriter {
  static let tellsBlame = false

  private let sink: ByteSink
  private let version: String
  private var profileCount = 0
  private var hasBegun = false
  private var numbers: [FunctionIdentity: Int] = [:]
  /// For each function, the JSON frame and the nanoseconds of each place in it.
  private var places: [[(text: String, nanoseconds: UInt64)]] = []
  /// For each frame of the recording, the number of its function and the index of its place there.
  private var placesOfFrames: [Int: (number: Int, place: Int)] = [:]

  init(_ sink: ByteSink, version: String) {
    self.sink = sink
    self.version = version
  }

  mutating func begin(_ recording: ExportedRecording) throws {
    placesOfFrames = [:]
    if !hasBegun {
      try sink.write(
        "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\(quotedJSON("culprit@\(version)")),"
          + "\"profiles\":["
      )
    }
    hasBegun = true
  }

  mutating func add(_ stall: ExportedStall) throws {
    let name = "\(stall.source) at \(stall.stall.began)"
    for track in stall.profile.tracks {
      let name = "\(name), \(stall.name(of: track.thread)), \(stall.recording.processName)"
      try write(name, "nanoseconds", Runs(track.segments), stall)
    }
    guard let others = stall.stall.others else { return }
    let runs = stall.recording.stacks.threads(of: others).map { Run(stack: $0.stack, weight: 1) }
    guard !runs.isEmpty else { return }
    try write("other threads: \(name), \(stall.recording.processName)", "none", runs, stall)
  }

  private struct Run {
    var stack: Int
    var weight: UInt64
  }

  /// Iterates over segments and merges neighbours with the same stack.
  private struct Runs: Sequence, IteratorProtocol {
    private var segments: LongList<StallProfile.Segment>.Iterator
    private var pending: Run?

    init(_ segments: LongList<StallProfile.Segment>) { self.segments = segments.makeIterator() }

    mutating func next() -> Run? {
      while let segment = segments.next() {
        guard segment.weight > 0 else { continue }
        if pending?.stack == segment.stack {
          pending?.weight += segment.weight
          continue
        }
        defer { pending = Run(stack: segment.stack, weight: segment.weight) }
        if let pending { return pending }
      }
      defer { pending = nil }
      return pending
    }
  }

  private mutating func write(_ name: String, _ unit: String, _ runs: some Sequence<Run>, _ stall: ExportedStall) throws
  {
    let stacks = stall.recording.stacks
    var weights: [Int: UInt64] = [:]
    var end: UInt64 = 0
    for run in runs {
      weights[run.stack, default: 0] += run.weight
      end += run.weight
    }
    var texts: [Int: String] = [:]
    for (stack, weight) in weights.sorted(by: { $0.key < $1.key }) {
      // Weights without a unit of time do not count for the choice of a function's line.
      let time = unit == "none" ? 0 : weight
      let frames = stacks.stacks[stack].map { String(number($0, time, stall.recording)) }
      texts[stack] = "[\(frames.joined(separator: ","))]"
    }
    try sink.write(profileCount == 0 ? "" : ",")
    profileCount += 1
    try sink.write(
      "\n{\"type\":\"sampled\",\"name\":\(quotedJSON(name)),\"unit\":\"\(unit)\",\"startValue\":0,\"endValue\":\(end),\"samples\":"
    )
    // Each column iterates over the runs again, which takes less memory than storing them.
    try sink.writeArray(runs) { texts[$0.stack] ?? "[]" }
    try sink.write(",\"weights\":")
    try sink.writeArray(runs) { String($0.weight) }
    try sink.write("}")
  }

  mutating func finish() throws {
    try sink.write("\n],\"shared\":{\"frames\":")
    try sink.writeArray(places) { places in
      "\n" + (places.max { $0.nanoseconds < $1.nanoseconds }?.text ?? "{\"name\":\"\"}")
    }
    try sink.write("}}\n")
    try sink.flush()
  }

  /// Returns the number of the function of `frame` and adds `nanoseconds` to the time of its place.
  private mutating func number(_ frame: Int, _ nanoseconds: UInt64, _ recording: ExportedRecording) -> Int {
    let (number, place) = placesOfFrames[frame] ?? addPlace(of: frame, recording)
    placesOfFrames[frame] = (number, place)
    places[number][place].nanoseconds = places[number][place].nanoseconds.saturatingSum(nanoseconds)
    return number
  }

  private mutating func addPlace(of frame: Int, _ recording: ExportedRecording) -> (number: Int, place: Int) {
    let resolved = recording.stacks.frames[frame].resolved
    let identity = FunctionIdentity(resolved)
    let number = numbers[identity] ?? places.count
    if number == places.count {
      numbers[identity] = number
      places.append([])
    }
    var object = JSONObject()
    object.add("name", recording.name(frame))
    if let location = resolved.location {
      object.add("file", printable(location.file))
      object.add("line", location.line)
    } else if !resolved.module.isEmpty {
      object.add("file", printable(resolved.module))
    }
    if let known = places[number].firstIndex(where: { $0.text == object.text }) { return (number, known) }
    places[number].append((object.text, 0))
    return (number, places[number].count - 1)
  }
}

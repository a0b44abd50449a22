import CulpritBlame
import CulpritStallRecord

/// Writes the Trace Event Format, with one track per stall.
///
/// Times are wall-clock times in whole microseconds, which a `Double` represents exactly.
struct ChromeWriter: ExportWriter {
  static let includesBlame = true

  private let sink: ByteSink
  private let version: String
  private var processes = TrackNumbers<ProcessKey>()
  private var threads: [ProcessKey: TrackNumbers<ThreadKey>] = [:]
  private var hasBegun = false
  private var pieces: [Int: Piece] = [:]

  /// End events repeat the name because some readers match events by name.
  private struct Piece {
    var begin: String
    var end: String
  }

  init(_ sink: ByteSink, version: String) {
    self.sink = sink
    self.version = version
  }

  mutating func begin(_ recording: ExportedRecording) throws {
    pieces = [:]
    let (process, isNew) = processes.number(of: ProcessKey(recording), wanted: Int(recording.process?.id ?? 0))
    guard isNew else { return }
    try writeName("process_name", recording.processName, process, 0)
  }

  mutating func add(_ stall: ExportedStall) throws {
    let key = ProcessKey(stall.recording)
    let process = processes.number(of: key, wanted: 0).number
    for track in stall.profile.tracks {
      let thread = try self.thread(
        track.thread,
        stall,
        key,
        process,
        "\(stall.name(of: track.thread)): \(stall.source)"
      )
      try write(track, stall, process, thread)
    }
    for other in stall.stall.others.map({ stall.recording.stacks.threads(of: $0) }) ?? [] {
      try write(other.thread, other.stack, stall, key, process)
    }
  }

  mutating func finish() throws {
    try sink.write("\n],\"otherData\":{\"exporter\":\(quotedJSON("culprit \(version)"))}}\n")
    try sink.flush()
  }

  /// Returns the track of `thread` for `stall`. Each stall has its own tracks, because stalls of a thread can overlap.
  private mutating func thread(
    _ thread: ObservedThread,
    _ stall: ExportedStall,
    _ key: ProcessKey,
    _ process: Int,
    _ name: String
  ) throws -> Int {
    let threadKey = ThreadKey(process: key, stall: stall.id, thread: thread.id)
    let (number, isNew) = threads[key, default: TrackNumbers()].number(of: threadKey, wanted: Int(thread.id))
    if isNew { try writeName("thread_name", name, process, number) }
    return number
  }

  private mutating func write(_ track: StallProfile.Track, _ stall: ExportedStall, _ process: Int, _ thread: Int) throws
  {
    guard let begin = track.segments.first?.begin, let end = track.segments.last?.end else { return }
    let place = "\"pid\":\(process),\"tid\":\(thread)"
    let stacks = stall.recording.stacks
    let name = quotedJSON("stall of \(stall.source)")
    try event("B", place, stall, begin, "\"cat\":\"stall\",\"name\":\(name),\"args\":\(arguments(stall))")
    if let age = stall.hangAge {
      try event("i", place, stall, age, "\"cat\":\"stall\",\"s\":\"t\",\"name\":\"became a hang\"")
    }
    var open: [(function: Int, end: String)] = []
    var position = begin
    for segment in track.segments where segment.end > segment.begin {
      let frames = stacks.stacks[segment.stack]
      var common = zip(open, frames).prefix { $0.function == stacks.frames[$1].function }.count
      // The stack is unknown in gaps between segments.
      if segment.begin > position { common = 0 }
      for slice in open[common...].reversed() { try event("E", place, stall, position, slice.end) }
      open.removeSubrange(common...)
      for frame in frames[common...] {
        let piece = pieces[frame] ?? self.piece(frame, stall.recording)
        pieces[frame] = piece
        try event("B", place, stall, segment.begin, piece.begin)
        open.append((stacks.frames[frame].function, piece.end))
      }
      position = segment.end
    }
    for slice in open.reversed() { try event("E", place, stall, position, slice.end) }
    try event("E", place, stall, end, "\"name\":\(name)")
  }

  /// Writes an instant event for a thread that was captured once.
  private mutating func write(
    _ other: ThreadSample,
    _ stack: Int,
    _ stall: ExportedStall,
    _ key: ProcessKey,
    _ process: Int
  ) throws {
    let thread = try self.thread(other.thread, stall, key, process, stall.name(of: other.thread))
    let stacks = stall.recording.stacks.stacks
    var arguments = JSONObject()
    arguments.add("stack", array: stacks[stack].reversed().map { quotedJSON(stall.recording.name($0)) })
    try event(
      "i",
      "\"pid\":\(process),\"tid\":\(thread)",
      stall,
      min(stall.stall.threshold.wholeNanoseconds, stall.profile.duration),
      "\"cat\":\"other\",\"s\":\"t\",\"name\":\(quotedJSON(stall.state(other.activity) ?? "captured")),\"args\":\(arguments.text)"
    )
  }

  private func arguments(_ stall: ExportedStall) -> String {
    var arguments = stall.facts
    if !stall.causes.isEmpty { arguments.add("causes", stall.causes) }
    let phases = stall.phases.map { phase in
      var object = JSONObject()
      object.add("function", phase.function)
      object.add("beginMs", json: decimal(phase.begin, 6))
      object.add("endMs", json: decimal(phase.end, 6))
      return object.text
    }
    if !phases.isEmpty { arguments.add("phases", array: phases) }
    return arguments.text
  }

  private func piece(_ place: Int, _ recording: ExportedRecording) -> Piece {
    let frame = recording.stacks.frames[place]
    var arguments = JSONObject()
    if let location = frame.resolved.location { arguments.add("at", printable("\(location)")) }
    if !frame.resolved.module.isEmpty { arguments.add("module", printable(frame.resolved.module)) }
    if frame.resolved.isInlined { arguments.add("inlined", true) }
    let name = "\"name\":\(quotedJSON(recording.name(place)))"
    let more = arguments.isEmpty ? "" : ",\"args\":\(arguments.text)"
    return Piece(begin: "\"cat\":\"\(frame.owner.code)\",\(name)\(more)", end: name)
  }

  private mutating func writeName(_ kind: String, _ name: String, _ process: Int, _ thread: Int) throws {
    try writeSeparator()
    try sink.write(
      "{\"ph\":\"M\",\"pid\":\(process),\"tid\":\(thread),\"name\":\"\(kind)\",\"args\":{\"name\":\(quotedJSON(name))}}"
    )
  }

  private mutating func event(
    _ phase: String,
    _ place: String,
    _ stall: ExportedStall,
    _ age: UInt64,
    _ rest: String = ""
  ) throws {
    try writeSeparator()
    let microseconds = stall.stall.began.nanosecondsSince1970.addingReportingOverflow(age).partialValue / 1000
    try sink.write("{\"ph\":\"\(phase)\",\(place),\"ts\":\(microseconds)" + (rest.isEmpty ? "}" : ",\(rest)}"))
  }

  private mutating func writeSeparator() throws {
    try sink.write(hasBegun ? ",\n" : "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n")
    hasBegun = true
  }
}

extension CodeOwner {
  var code: String {
    switch self {
    case .own, .entry: "own"
    case .dependency: "dependency"
    case .system: "system"
    }
  }
}

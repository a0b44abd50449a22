import CulpritBlame
import CulpritStallRecord

/// Writes version 60 of the Firefox Profiler's processed profile format, with a thread for each thread of each stall.
///
/// Times are in milliseconds from the start of the first exported stall. The shared tables come last, because each
/// stall can add entries.
struct FirefoxWriter: ExportWriter {
  static let includesBlame = true

  /// Versions of the processed format and of the Gecko format (the profiler's docs-developer/CHANGELOG-formats.md).
  private static let processedVersion = 60
  private static let geckoVersion = 33

  private let sink: ByteSink
  private let version: String
  private var tables = FirefoxTables()
  private var processes = TrackNumbers<ProcessKey>()
  private var threads = TrackNumbers<ThreadKey>()
  private var threadCount = 0
  private var stalled: [Int] = []
  private var began: UInt64?
  private var product = ""
  private var architecture = ""
  private var duration: UInt64 = 0
  private var segmentCount: UInt64 = 0

  init(_ sink: ByteSink, version: String) {
    self.sink = sink
    self.version = version
  }

  mutating func begin(_ recording: ExportedRecording) {
    tables.begin(recording)
    if product.isEmpty { product = recording.executableName }
    if architecture.isEmpty { architecture = recording.process?.architecture ?? "" }
  }

  mutating func add(_ stall: ExportedStall) throws {
    if began == nil {
      began = stall.stall.began.nanosecondsSince1970
      try sink.write("{\"threads\":[")
    }
    duration = duration.saturatingSum(stall.profile.duration)
    for track in stall.profile.tracks {
      stalled.append(threadCount)
      try write(track, stall)
    }
    for other in stall.stall.others.map({ stall.recording.stacks.threads(of: $0) }) ?? [] {
      let age = min(stall.stall.threshold.wholeNanoseconds, stall.profile.duration)
      let name = "\(stall.name(of: other.thread.thread)), \(stall.state(other.thread.activity) ?? "captured")"
      try writeThread(other.thread.thread, name, stall, isStalled: false)
      let stack = tables.stack(other.stack, stall.recording).map(String.init) ?? "null"
      try sink.write(
        ",\"samples\":{\"stack\":[\(stack)],\"time\":[\(time(stall, age))],\"weight\":null,\"weightType\":\"samples\","
          + "\"length\":1},\"markers\":\(FirefoxMarkers().text)}"
      )
    }
  }

  private mutating func write(_ track: StallProfile.Track, _ stall: ExportedStall) throws {
    segmentCount += UInt64(track.segments.count)
    try writeThread(track.thread, "\(stall.name(of: track.thread)): \(stall.source)", stall, isStalled: true)
    try sink.write(",\"samples\":{\"stack\":")
    // Iterating once per column takes less memory than buffering the text of all columns.
    var stacks: [Int: String] = [:]
    for segment in track.segments where stacks[segment.stack] == nil {
      stacks[segment.stack] = tables.stack(segment.stack, stall.recording).map(String.init) ?? "null"
    }
    try sink.writeArray(track.segments) { stacks[$0.stack] ?? "null" }
    try sink.write(",\"time\":")
    try sink.writeArray(track.segments) { time(stall, $0.begin) }
    try sink.write(",\"weight\":")
    try sink.writeArray(track.segments) { decimal($0.weight, 6) }
    try sink.write(",\"weightType\":\"tracing-ms\",\"length\":\(track.segments.count)},\"markers\":")
    try sink.write(markers(track, stall).text)
    try sink.write("}")
  }

  private mutating func writeThread(
    _ thread: ObservedThread,
    _ name: String,
    _ stall: ExportedStall,
    isStalled: Bool
  ) throws {
    let key = ProcessKey(stall.recording)
    let process = processes.number(of: key, wanted: Int(key.id)).number
    let threadKey = ThreadKey(process: key, stall: stall.id, thread: thread.id)
    let number = threads.number(of: threadKey, wanted: Int(thread.id)).number
    var object = JSONObject()
    object.add("processType", "default")
    object.add("processStartupTime", 0)
    object.add("processShutdownTime", json: "null")
    object.add("registerTime", 0)
    object.add("unregisterTime", json: "null")
    object.add("pausedRanges", array: [])
    object.add("name", name)
    object.add("isMainThread", thread.id == key.id && isStalled)
    object.add("processName", stall.recording.processName)
    object.add("pid", String(process))
    object.add("tid", number)
    object.add("showMarkersInTimeline", true)
    try sink.write((threadCount == 0 ? "\n" : ",\n") + object.text.dropLast())
    threadCount += 1
  }

  private mutating func markers(_ track: StallProfile.Track, _ stall: ExportedStall) -> FirefoxMarkers {
    var markers = FirefoxMarkers()
    var data = JSONObject()
    data.add("type", "Stall")
    data.add("id", stall.id)
    data.add("source", stall.source)
    data.add("threshold", json: decimal(stall.stall.threshold.wholeNanoseconds, 6))
    data.add("culprit", stall.culprit ?? "no single function")
    let causes = (stall.blame?.causes ?? []).map { "\($0.kind.rawValue) \(decimal(share: $0.share))" }
    data.add("causes", causes.joined(separator: ", "))
    let (begin, end) = (track.segments.first?.begin ?? 0, track.segments.last?.end ?? 0)
    markers.add(tables.string("Stall"), time(stall, begin), time(stall, end), data)
    for phase in stall.phases {
      var data = JSONObject()
      data.add("type", "Phase")
      data.add("function", phase.function)
      markers.add(tables.string("Phase"), time(stall, phase.begin), time(stall, phase.end), data)
    }
    if let age = stall.hangAge {
      var data = JSONObject()
      data.add("type", "Hang")
      markers.add(tables.string("Hang"), time(stall, age), nil, data)
    }
    return markers
  }

  /// Returns milliseconds since the first exported stall began.
  private func time(_ stall: ExportedStall, _ age: UInt64) -> String {
    let time = stall.stall.began.nanosecondsSince1970.addingReportingOverflow(age).partialValue
    let began = began ?? 0
    return time >= began ? decimal(time - began, 6) : "-" + decimal(began - time, 6)
  }

  mutating func finish() throws {
    try sink.write("\n],\"shared\":")
    try tables.write(to: sink)
    try sink.write(",\"libs\":[\(tables.libraries(architecture).joined(separator: ",\n"))],\"meta\":\(meta.text)}\n")
    try sink.flush()
  }

  private var meta: JSONObject {
    var meta = JSONObject()
    // The mean, because sampling has no fixed interval.
    meta.add("interval", json: decimal(max(1, duration / max(1, segmentCount)), 6))
    meta.add("startTime", json: decimal(began ?? 0, 6))
    meta.add("processType", 0)
    meta.add("product", product.isEmpty ? "culprit" : product)
    meta.add("importedFrom", "culprit \(version)")
    meta.add("stackwalk", 1)
    meta.add("version", Self.geckoVersion)
    meta.add("preprocessedProfileVersion", Self.processedVersion)
    meta.add("symbolicated", true)
    meta.add("oscpu", "Linux \(printable(architecture))")
    meta.add("usesOnlyOneStackType", true)
    meta.add("sourceCodeIsNotOnSearchfox", true)
    meta.add("keepProfileThreadOrder", true)
    meta.add("initialVisibleThreads", array: stalled.map(String.init))
    meta.add("initialSelectedThreads", array: stalled.prefix(1).map(String.init))
    meta.add("categories", array: FirefoxTables.categories)
    meta.add("markerSchema", array: FirefoxMarkers.schema)
    return meta
  }
}

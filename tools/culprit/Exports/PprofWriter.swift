import CulpritBlame
import CulpritStallRecord

/// Writes gzipped profile.proto for pprof.
///
/// Samples with equal stacks and labels are combined. Mappings and strings are written last; protobuf readers accept
/// any order.
struct PprofWriter: ExportWriter {
  static let includesBlame = false

  private enum Field {
    static let sampleType: UInt64 = 1
    static let sample: UInt64 = 2
    static let mapping: UInt64 = 3
    static let location: UInt64 = 4
    static let function: UInt64 = 5
    static let text: UInt64 = 6
    static let time: UInt64 = 9
    static let duration: UInt64 = 10
    static let periodType: UInt64 = 11
    static let period: UInt64 = 12
    static let comment: UInt64 = 13
    static let defaultSampleType: UInt64 = 14
  }

  private struct SampleKey: Hashable {
    var stack: Int
    var found: StallProfile.Found?
  }

  private let sink: ByteSink
  private let gzip: GzipSink?
  private let isRaw: Bool
  private var places = ProfilePlaces(Places())
  private var strings = Numbered<String>()
  private var began: UInt64?
  private var duration: UInt64 = 0
  private var sampleCount: UInt64 = 0
  private var comments: [Int] = []

  init(_ sink: ByteSink, isRaw: Bool) {
    self.sink = sink
    gzip = GzipSink(sink)
    self.isRaw = isRaw
    _ = strings.number("")
  }

  mutating func begin(_ recording: ExportedRecording) throws {
    if began == nil {
      var profile = ProtobufMessage()
      profile.add(Field.sampleType, valueType("samples", "count"))
      profile.add(Field.sampleType, valueType("time", "nanoseconds"))
      try write(profile)
    }
    places.begin(recording)
  }

  mutating func add(_ stall: ExportedStall) throws {
    began = min(began ?? .max, stall.stall.began.nanosecondsSince1970)
    duration = duration.saturatingSum(stall.profile.duration)
    comments.append(strings.number("\(stall.source) at \(stall.stall.began), \(stall.recording.processName)"))
    for track in stall.profile.tracks {
      var sums: [SampleKey: (count: UInt64, nanoseconds: UInt64)] = [:]
      var order: [SampleKey] = []
      for segment in track.segments {
        let key = SampleKey(stack: segment.stack, found: segment.sample)
        let sum = sums[key]
        if sum == nil { order.append(key) }
        sums[key] = ((sum?.count ?? 0) + (segment.sample == nil ? 0 : 1), (sum?.nanoseconds ?? 0) + segment.weight)
      }
      let common = labels(of: stall, track.thread)
      for key in order {
        let sum = sums[key] ?? (0, 0)
        sampleCount += sum.count
        try writeSample(stall, key, common, sum)
      }
    }
  }

  private mutating func writeSample(
    _ stall: ExportedStall,
    _ key: SampleKey,
    _ common: [ProtobufMessage],
    _ sum: (count: UInt64, nanoseconds: UInt64)
  ) throws {
    var profile = ProtobufMessage()
    let locations = places.locations(ofStack: key.stack, stall.recording, &strings, &profile)
    var sample = ProtobufMessage()
    sample.add(1, packed: locations)
    sample.add(2, packed: [sum.count, sum.nanoseconds])
    for label in common { sample.add(3, label) }
    if let state = key.found.flatMap({ stall.state($0.activity) }) { sample.add(3, label("state", state)) }
    if let text = key.found.flatMap({ stall.label($0.label) }) { sample.add(3, label("label", text)) }
    profile.add(Field.sample, sample)
    try write(profile)
  }

  mutating func finish() throws {
    var profile = ProtobufMessage()
    profile.add(Field.time, began ?? 0)
    profile.add(Field.duration, duration)
    profile.add(Field.periodType, valueType("time", "nanoseconds"))
    profile.add(Field.period, sampleCount > 0 ? duration / sampleCount : 0)
    for comment in comments { profile.add(Field.comment, comment) }
    profile.add(Field.defaultSampleType, strings.number("time"))
    for (place, mapping) in places.mappings.all.enumerated() {
      profile.add(Field.mapping, self.mapping(mapping, UInt64(place + 1)))
    }
    for text in strings.all { profile.add(Field.text, text) }
    try write(profile)
    try gzip?.finish()
  }

  private mutating func mapping(_ mapping: ProfilePlaces.Mapping, _ number: UInt64) -> ProtobufMessage {
    let isNamed = !isRaw && !places.unnamed.contains(number)
    let memory = mapping.mapping
    var message = ProtobufMessage(numbers: number, memory.start.value, memory.end.value, memory.fileOffset)
    message.add(5, strings.number(printable(mapping.path)))
    message.add(6, strings.number(mapping.buildID.isEmpty ? "" : hexadecimal(mapping.buildID)))
    // Fields 7 to 10 (`has_functions` to `has_inline_frames`). If set, readers do not symbolize the mapping.
    for field in UInt64(7)...10 { message.add(field, isNamed) }
    return message
  }

  private struct Places: PlaceEncoding {
    func add(_ location: ProfilePlaces.Location, _ number: UInt64, to profile: inout ProtobufMessage) {
      var message = ProtobufMessage(numbers: number, location.mapping, location.address)
      for line in location.lines { message.add(4, line.message) }
      message.add(5, location.isMerged)
      profile.add(Field.location, message)
    }

    func add(_ function: ProfilePlaces.Function, _ number: UInt64, to profile: inout ProtobufMessage) {
      let message = ProtobufMessage(numbers: number, function.name, function.systemName, function.file)
      profile.add(Field.function, message)
    }
  }

  private mutating func labels(of stall: ExportedStall, _ thread: ObservedThread) -> [ProtobufMessage] {
    [
      label("source", printable(stall.stall.source.name)), label("kind", stall.stall.source.kind.name),
      label("thread", stall.name(of: thread)), label("process", stall.recording.processName), label("stall", stall.id),
    ]
  }

  private mutating func label(_ key: String, _ text: String) -> ProtobufMessage {
    ProtobufMessage(numbers: strings.number(key), strings.number(text))
  }

  private mutating func valueType(_ type: String, _ unit: String) -> ProtobufMessage {
    ProtobufMessage(numbers: strings.number(type), strings.number(unit))
  }

  private func write(_ message: ProtobufMessage) throws {
    guard let gzip else { throw ExportError.noMemory }
    try gzip.write(message.bytes)
  }
}

/// A reason for a failed export.
package enum ExportError: Error, CustomStringConvertible {
  /// No memory for the compressor.
  case noMemory

  /// A message without a final period.
  package var description: String { "not enough memory to compress the export" }
}

import CulpritBlame
import CulpritStallRecord

/// Writes the OpenTelemetry profiles signal in protobuf. `ProfilesData` is encoded like `ExportProfilesServiceRequest`.
///
/// Uses opentelemetry-proto 1.9.0 to 1.11.0 (`opentelemetry/proto/profiles/v1development/profiles.proto`). Each stall
/// is one or several `ResourceProfiles` with the profiles of its threads. The dictionary is written in pieces, which
/// protobuf readers merge.
///
/// A message's length precedes the message, so each profile is completely in memory. Threads with very many samples are
/// split into consecutive profiles.
struct OTLPWriter: ExportWriter {
  static let includesBlame = false

  private enum Field {
    static let resourceProfiles: UInt64 = 1
    static let dictionary: UInt64 = 2
  }
  private enum Table {
    static let mapping: UInt64 = 1
    static let location: UInt64 = 2
    static let function: UInt64 = 3
    static let link: UInt64 = 4
    static let text: UInt64 = 5
    static let attribute: UInt64 = 6
    static let stack: UInt64 = 7
  }

  private struct Attribute: Hashable {
    var key: Int
    var value: Value
  }

  private enum Value: Hashable {
    case text(String)
    case number(Int)

    var message: ProtobufMessage {
      var message = ProtobufMessage()
      switch self {
      case .text(let text): message.add(1, text)
      // The presence of the field, even with 0, selects the value's type.
      case .number(let number): message.add(3, always: UInt64(bitPattern: Int64(number)))
      }
      return message
    }
  }

  /// Properties by which OpenTelemetry combines samples.
  private struct Identity: Hashable {
    var stack: UInt64
    var state: String?
    var label: String?
  }

  private struct Observations {
    var values: [UInt64] = []
    var times: [UInt64] = []
  }

  /// A thread's samples in a part of the stall.
  private struct Part {
    /// Age of the work at the start of this part, in nanoseconds.
    var begin: UInt64 = 0
    var order: [Identity] = []
    var found: [Identity: Observations] = [:]
    var count = 0

    mutating func add(_ identity: Identity, _ value: UInt64, at time: UInt64) {
      if found[identity] == nil { order.append(identity) }
      found[identity, default: Observations()].values.append(value)
      found[identity, default: Observations()].times.append(time)
      count += 1
    }
  }

  private static let samplesMax = 32 << 10

  private let sink: ByteSink
  private let version: String
  private var places = ProfilePlaces(Places())
  private var strings = Numbered<String>()
  private var attributes = Numbered<Attribute>()
  private var attributesWritten = 0
  private var stacks = Numbered<[UInt64]>()
  private var stacksOfPlaces: [Int: UInt64] = [:]

  init(_ sink: ByteSink, version: String) {
    self.sink = sink
    self.version = version
    // The first entry of each table must be empty.
    _ = strings.number("")
    _ = stacks.number([])
  }

  mutating func begin(_ recording: ExportedRecording) throws {
    places.begin(recording)
    stacksOfPlaces = [:]
  }

  mutating func add(_ stall: ExportedStall) throws {
    var dictionary = ProtobufMessage()
    var profiles: [ProtobufMessage] = []
    var count = 0
    for track in stall.profile.tracks {
      var part = Part()
      for segment in track.segments {
        if part.count == Self.samplesMax {
          profiles.append(profile(stall, track.thread, part, end: segment.begin))
          try write(&profiles, of: stall, &dictionary)
          part = Part(begin: segment.begin)
          count = 0
        }
        let last = max(stall.profile.duration, 1) - 1
        let identity = Identity(
          stack: stack(segment.stack, stall.recording, &dictionary),
          state: segment.sample.flatMap { stall.state($0.activity) },
          label: segment.sample.flatMap { stall.label($0.label) }
        )
        let time = stall.stall.began.nanosecondsSince1970.saturatingSum(min(segment.begin, last))
        part.add(identity, segment.weight, at: time)
      }
      profiles.append(profile(stall, track.thread, part, end: stall.profile.duration))
      count += part.count
      // A message can have many threads with few samples each.
      if count >= Self.samplesMax {
        try write(&profiles, of: stall, &dictionary)
        count = 0
      }
    }
    if !profiles.isEmpty { try write(&profiles, of: stall, &dictionary) }
  }

  /// Writes and empties `profiles` and the new dictionary entries.
  private mutating func write(
    _ profiles: inout [ProtobufMessage],
    of stall: ExportedStall,
    _ dictionary: inout ProtobufMessage
  ) throws {
    writeAttributes(&dictionary)
    var scope = ProtobufMessage()
    var library = ProtobufMessage()
    library.add(1, "culprit")
    library.add(2, version)
    scope.add(1, library)
    for profile in profiles { scope.add(2, profile) }
    var part = ProtobufMessage()
    part.add(1, resource(of: stall.recording))
    part.add(2, scope)
    var data = ProtobufMessage()
    data.add(Field.resourceProfiles, part)
    if !dictionary.bytes.isEmpty { data.add(Field.dictionary, dictionary) }
    try write(data)
    (profiles, dictionary) = ([], ProtobufMessage())
  }

  mutating func finish() throws {
    // Texts, and the tables that no piece contains yet.
    var dictionary = ProtobufMessage()
    dictionary.add(Table.mapping, ProtobufMessage())
    for mapping in places.mappings.all { dictionary.add(Table.mapping, message(mapping)) }
    dictionary.add(Table.link, ProtobufMessage())
    writeAttributes(&dictionary)
    for text in strings.all { dictionary.add(Table.text, text) }
    var data = ProtobufMessage()
    data.add(Field.dictionary, dictionary)
    try write(data)
    try sink.flush()
  }

  private mutating func profile(
    _ stall: ExportedStall,
    _ thread: ObservedThread,
    _ part: Part,
    end: UInt64
  ) -> ProtobufMessage {
    var profile = ProtobufMessage()
    profile.add(1, wallTime())
    for identity in part.order {
      var sample = ProtobufMessage()
      sample.add(1, identity.stack)
      var own: [UInt64] = []
      if let state = identity.state { own.append(attribute("culprit.thread.state", .text(state))) }
      if let label = identity.label { own.append(attribute("culprit.label", .text(label))) }
      if !own.isEmpty { sample.add(2, packed: own) }
      sample.add(4, packed: part.found[identity]?.values ?? [])
      sample.add(5, packedFixed: part.found[identity]?.times ?? [])
      profile.add(2, sample)
    }
    profile.add(3, fixed: stall.stall.began.nanosecondsSince1970.saturatingSum(part.begin))
    profile.add(4, max(end, part.begin) - part.begin)
    profile.add(11, packed: attributes(of: stall, thread))
    return profile
  }

  private mutating func wallTime() -> ProtobufMessage {
    ProtobufMessage(numbers: strings.number("wall"), strings.number("nanoseconds"))
  }

  private mutating func stack(_ place: Int, _ recording: ExportedRecording, _ dictionary: inout ProtobufMessage)
    -> UInt64
  {
    if let known = stacksOfPlaces[place] { return known }
    // The empty first entry of each table must be written first.
    if stacks.all.count == 1, stacksOfPlaces.isEmpty {
      for table in [Table.location, Table.function, Table.stack] { dictionary.add(table, ProtobufMessage()) }
    }
    let locations = places.locations(ofStack: place, recording, &strings, &dictionary)
    let count = stacks.all.count
    let number = stacks.number(locations)
    if number == count {
      var message = ProtobufMessage()
      message.add(1, packed: locations)
      dictionary.add(Table.stack, message)
    }
    stacksOfPlaces[place] = UInt64(number)
    return UInt64(number)
  }

  private mutating func attributes(of stall: ExportedStall, _ thread: ObservedThread) -> [UInt64] {
    var own = [
      attribute("culprit.stall.id", .text(stall.id)),
      attribute("culprit.source.kind", .text(stall.stall.source.kind.name)),
      attribute("culprit.source.name", .text(printable(stall.stall.source.name))),
    ]
    guard thread.id != 0 else { return own }
    own.append(attribute("thread.id", .number(Int(thread.id))))
    if !thread.name.isEmpty { own.append(attribute("thread.name", .text(printable(thread.name)))) }
    return own
  }

  private mutating func attribute(_ key: String, _ value: Value) -> UInt64 {
    UInt64(attributes.number(Attribute(key: strings.number(key), value: value)) + 1)
  }

  private mutating func writeAttributes(_ dictionary: inout ProtobufMessage) {
    if attributesWritten == 0 { dictionary.add(Table.attribute, ProtobufMessage()) }
    for attribute in attributes.all.dropFirst(max(0, attributesWritten - 1)) {
      var message = ProtobufMessage()
      message.add(1, attribute.key)
      message.add(2, attribute.value.message)
      dictionary.add(Table.attribute, message)
    }
    attributesWritten = attributes.all.count + 1
  }

  private func resource(of recording: ExportedRecording) -> ProtobufMessage {
    var resource = ProtobufMessage()
    func add(_ key: String, _ value: Value) {
      var pair = ProtobufMessage()
      pair.add(1, key)
      pair.add(2, value.message)
      resource.add(1, pair)
    }
    guard let process = recording.process else {
      // OpenTelemetry's default.
      add("service.name", .text("unknown_service"))
      return resource
    }
    add("service.name", .text(recording.executableName))
    add("process.pid", .number(Int(process.id)))
    add("process.executable.path", .text(printable(process.executable)))
    if !process.host.isEmpty { add("host.name", .text(printable(process.host))) }
    add("os.type", .text("linux"))
    return resource
  }

  private mutating func message(_ mapping: ProfilePlaces.Mapping) -> ProtobufMessage {
    let memory = mapping.mapping
    let path = strings.number(printable(mapping.path))
    var message = ProtobufMessage(numbers: memory.start.value, memory.end.value, memory.fileOffset, path)
    if !mapping.buildID.isEmpty {
      message.add(5, packed: [attribute("process.executable.build_id.gnu", .text(hexadecimal(mapping.buildID)))])
    }
    return message
  }

  /// Writes in pieces to limit the sink's buffer.
  private func write(_ message: ProtobufMessage) throws {
    var rest = message.bytes[...]
    while !rest.isEmpty {
      try sink.write(rest.prefix(32 << 10))
      rest = rest.dropFirst(32 << 10)
    }
  }

  private struct Places: PlaceEncoding {
    func add(_ location: ProfilePlaces.Location, _ number: UInt64, to dictionary: inout ProtobufMessage) {
      var message = ProtobufMessage(numbers: location.mapping, location.address)
      for line in location.lines { message.add(3, line.message) }
      dictionary.add(Table.location, message)
    }

    func add(_ function: ProfilePlaces.Function, _ number: UInt64, to dictionary: inout ProtobufMessage) {
      dictionary.add(Table.function, ProtobufMessage(numbers: function.name, function.systemName, function.file))
    }
  }
}

import CulpritBlame
import CulpritStallRecord

protocol PlaceEncoding {
  /// Numbers start at 1.
  func add(_ location: ProfilePlaces.Location, _ number: UInt64, to message: inout ProtobufMessage)
  /// Numbers start at 1.
  func add(_ function: ProfilePlaces.Function, _ number: UInt64, to message: inout ProtobufMessage)
}

/// Mappings, locations and functions in pprof's or a derived format.
struct ProfilePlaces {
  struct Mapping: Hashable {
    var path: String
    var buildID: [UInt8]
    var mapping: Module.Mapping
  }

  struct Line: Hashable {
    var function: UInt64
    var line: Int
    var column: Int

    var message: ProtobufMessage { ProtobufMessage(numbers: function, line, column) }
  }

  struct Location: Hashable {
    var mapping: UInt64
    var address: UInt64
    var lines: [Line]
    var isMerged: Bool
  }

  struct Function: Hashable {
    var name: Int
    var systemName: Int
    var file: Int
  }

  private let encoding: any PlaceEncoding
  private var map = ModuleMap([])
  /// Mappings of the executables and all mappings with locations, numbered from 1.
  private(set) var mappings = Numbered<Mapping>()
  /// Mappings with unnamed code. Readers might have the names.
  private(set) var unnamed: Set<UInt64> = []
  private var locations: [Location: UInt64] = [:]
  private var functions: [Function: UInt64] = [:]
  private var locationsOfStacks: [Int: [UInt64]] = [:]

  init(_ encoding: any PlaceEncoding) { self.encoding = encoding }

  mutating func begin(_ recording: ExportedRecording) {
    map = ModuleMap(recording.modules)
    locationsOfStacks = [:]
    // By convention the executable comes first.
    guard let executable = recording.process?.executable,
      let module = recording.modules.first(where: { $0.path == executable }), let mapping = module.mappings.first
    else { return }
    _ = number(of: module, mapping)
  }

  /// Returns locations, innermost first. Adds new locations to `profile`.
  mutating func locations(
    ofStack place: Int,
    _ recording: ExportedRecording,
    _ strings: inout Numbered<String>,
    _ profile: inout ProtobufMessage
  ) -> [UInt64] {
    if let known = locationsOfStacks[place] { return known }
    let frames = recording.stacks.frames
    var found: [UInt64] = []
    var inner: [Int] = []
    for frame in recording.stacks.stacks[place].reversed() {
      if let last = inner.last, !frames[last].resolved.isInlined || frames[last].captured != frames[frame].captured {
        found.append(location(of: inner, recording, &strings, &profile))
        inner = []
      }
      inner.append(frame)
    }
    if !inner.isEmpty { found.append(location(of: inner, recording, &strings, &profile)) }
    locationsOfStacks[place] = found
    return found
  }

  /// Returns the location of frames at one address, innermost first.
  private mutating func location(
    of places: [Int],
    _ recording: ExportedRecording,
    _ strings: inout Numbered<String>,
    _ profile: inout ProtobufMessage
  ) -> UInt64 {
    let frames = places.map { recording.stacks.frames[$0] }
    let address = frames[0].captured?.lookupAddress
    var location = Location(
      mapping: address.map { mapping(at: $0) } ?? 0,
      address: address?.value ?? 0,
      lines: [],
      isMerged: frames.contains { $0.resolved.isMerged }
    )
    if address == nil || frames.contains(where: { $0.resolved.function != nil }) {
      for (place, frame) in zip(places, frames) {
        let function = function(
          Function(
            name: strings.number(recording.name(place)),
            systemName: strings.number(printable(frame.resolved.rawName ?? frame.resolved.function ?? "")),
            file: strings.number(printable(frame.resolved.location?.file ?? ""))
          ),
          &profile
        )
        let source = frame.resolved.location
        location.lines.append(Line(function: function, line: source?.line ?? 0, column: source?.column ?? 0))
      }
    } else {
      unnamed.insert(location.mapping)
    }
    if let number = locations[location] { return number }
    let number = UInt64(locations.count + 1)
    locations[location] = number
    encoding.add(location, number, to: &profile)
    return number
  }

  private mutating func function(_ function: Function, _ profile: inout ProtobufMessage) -> UInt64 {
    if let number = functions[function] { return number }
    let number = UInt64(functions.count + 1)
    functions[function] = number
    encoding.add(function, number, to: &profile)
    return number
  }

  /// Returns the mapping's number; 0 if no mapping contains `address`.
  private mutating func mapping(at address: RuntimeAddress) -> UInt64 {
    guard let index = map.index(at: address),
      let mapping = map.modules[index].mappings.first(where: { $0.start <= address && address < $0.end })
    else { return 0 }
    return number(of: map.modules[index], mapping)
  }

  private mutating func number(of module: Module, _ mapping: Module.Mapping) -> UInt64 {
    UInt64(mappings.number(Mapping(path: module.path, buildID: module.buildID, mapping: mapping)) + 1)
  }
}

import CCulpritZlib
import Testing

/// A pprof profile, decoded according to google/pprof's proto/profile.proto without code of the writer.
struct Pprof {
  struct Sample: Hashable {
    var locations: [UInt64]
    var values: [Int64]
    var labels: [String: String]
  }

  struct Line: Hashable {
    var function: UInt64
    var line: Int64
    var column: Int64
  }

  struct Location: Hashable {
    var mapping: UInt64 = 0
    var address: UInt64 = 0
    var lines: [Line] = []
  }

  struct Function: Hashable {
    var name = ""
    var systemName = ""
    var file = ""
  }

  struct Mapping: Hashable {
    var start: UInt64 = 0
    var limit: UInt64 = 0
    var offset: UInt64 = 0
    var file = ""
    var buildID = ""
    var hasNames = false
  }

  var samples: [Sample] = []
  var sampleTypes: [String] = []
  var locations: [UInt64: Location] = [:]
  var functions: [UInt64: Function] = [:]
  var mappings: [UInt64: Mapping] = [:]
  var comments: [String] = []
  var timeNanos: UInt64 = 0
  var durationNanos: UInt64 = 0
  var defaultType = ""

  /// Decodes a profile compressed by gzip.
  init(_ compressed: [UInt8]) throws {
    let fields = try Wire.fields(try gunzip(compressed)[...])
    let texts = fields.filter { $0.number == 6 }.map { String(decoding: $0.bytes, as: UTF8.self) }
    try #require(texts.first == "")
    func text(_ number: UInt64) throws -> String {
      let place = Int(number)
      return try #require(texts.indices.contains(place) ? texts[place] : nil)
    }
    for field in fields {
      let parts = try (1...5).contains(field.number) || field.number == 11 ? Wire.fields(field.bytes) : []
      func part(_ number: UInt64) -> UInt64 { parts.last { $0.number == number }?.value ?? 0 }
      switch field.number {
      case 1: sampleTypes.append("\(try text(part(1)))/\(try text(part(2)))")
      case 2:
        var labels: [String: String] = [:]
        for label in parts where label.number == 3 {
          let pair = try Wire.fields(label.bytes)
          let key = try text(pair.last { $0.number == 1 }?.value ?? 0)
          try #require(labels[key] == nil)
          labels[key] = try text(pair.last { $0.number == 2 }?.value ?? 0)
        }
        let packed = try parts.filter { $0.number < 3 }.map { ($0.number, try Wire.packed($0.bytes)) }
        samples.append(
          Sample(
            locations: packed.filter { $0.0 == 1 }.flatMap(\.1),
            values: packed.filter { $0.0 == 2 }.flatMap(\.1).map { Int64(bitPattern: $0) },
            labels: labels
          )
        )
      case 3:
        let names = (UInt64(7)...10).map { part($0) == 1 }
        try #require(Set(names).count == 1)
        try #require(mappings[part(1)] == nil && part(1) > 0)
        mappings[part(1)] = Mapping(
          start: part(2),
          limit: part(3),
          offset: part(4),
          file: try text(part(5)),
          buildID: try text(part(6)),
          hasNames: names[0]
        )
      case 4:
        let lines = try parts.filter { $0.number == 4 }
          .map { line -> Line in
            let fields = try Wire.fields(line.bytes)
            func value(_ number: UInt64) -> UInt64 { fields.last { $0.number == number }?.value ?? 0 }
            return Line(function: value(1), line: Int64(bitPattern: value(2)), column: Int64(bitPattern: value(3)))
          }
        try #require(locations[part(1)] == nil && part(1) > 0)
        locations[part(1)] = Location(mapping: part(2), address: part(3), lines: lines)
      case 5:
        try #require(functions[part(1)] == nil && part(1) > 0)
        functions[part(1)] = Function(name: try text(part(2)), systemName: try text(part(3)), file: try text(part(4)))
      case 9: timeNanos = field.value
      case 10: durationNanos = field.value
      case 13: comments.append(try text(field.value))
      case 14: defaultType = try text(field.value)
      default: break
      }
    }
    try checkReferences()
  }

  /// Requires that all referenced entries exist, and that addresses are in their mappings.
  private func checkReferences() throws {
    for sample in samples {
      try #require(sample.values.count == sampleTypes.count)
      for location in sample.locations { try #require(locations[location] != nil) }
    }
    for location in locations.values {
      for line in location.lines { try #require(functions[line.function] != nil) }
      guard location.mapping != 0 else { continue }
      let mapping = try #require(mappings[location.mapping])
      try #require(mapping.start <= location.address && location.address < mapping.limit)
    }
  }

  /// The sums of all values, in the order of ``sampleTypes``.
  var totals: [Int64] {
    samples.reduce(into: sampleTypes.map { _ in Int64(0) }) { sums, sample in
      for (place, value) in sample.values.enumerated() { sums[place] += value }
    }
  }

  /// The functions of `sample`, innermost first.
  func names(_ sample: Sample) -> [String] {
    sample.locations.flatMap { number -> [String] in
      let location = locations[number] ?? Location()
      guard !location.lines.isEmpty else { return ["0x" + String(location.address, radix: 16)] }
      return location.lines.map { functions[$0.function]?.name ?? "?" }
    }
  }

  var text: String {
    var lines = ["types \(sampleTypes) default \(defaultType)", "time \(timeNanos) duration \(durationNanos)"]
    lines += comments.map { "comment \($0)" }
    for (number, mapping) in mappings.sorted(by: { $0.key < $1.key }) { lines.append("mapping \(number) \(mapping)") }
    for (number, function) in functions.sorted(by: { $0.key < $1.key }) {
      lines.append("function \(number) \(function)")
    }
    for (number, location) in locations.sorted(by: { $0.key < $1.key }) {
      lines.append("location \(number) \(location)")
    }
    for sample in samples {
      lines.append("sample \(sample.values) \(sample.locations)")
      lines += sample.labels.sorted { $0.key < $1.key }.map { "  \($0.key): \($0.value)" }
    }
    return lines.joined(separator: "\n") + "\n"
  }
}

/// Decompresses a single gzip member.
func gunzip(_ compressed: [UInt8]) throws -> [UInt8] {
  var stream = z_stream()
  try #require(inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK)
  defer { inflateEnd(&stream) }
  var input = compressed
  var result: [UInt8] = []
  var buffer = [UInt8](repeating: 0, count: 1 << 16)
  var status = Z_OK
  // SAFETY: zlib gets the sizes of both arrays, and is done with the input before the closure returns.
  input.withUnsafeMutableBufferPointer { source in
    stream.next_in = source.baseAddress
    stream.avail_in = UInt32(source.count)
    while status == Z_OK {
      let count = buffer.withUnsafeMutableBufferPointer { target in
        stream.next_out = target.baseAddress
        stream.avail_out = UInt32(target.count)
        status = inflate(&stream, Z_NO_FLUSH)
        return target.count - Int(stream.avail_out)
      }
      result += buffer[..<count]
    }
  }
  try #require(status == Z_STREAM_END && stream.avail_in == 0)
  return result
}

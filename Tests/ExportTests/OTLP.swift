import Testing

/// OpenTelemetry profiles, decoded according to opentelemetry-proto's profiles/v1development/profiles.proto, without
/// code of the writer.
struct OTLP {
  struct Sample: Hashable {
    /// The stack and attributes, which are unique in a profile.
    struct Identity: Hashable {
      var stack: UInt64
      var attributes: [String: String]
    }

    var identity: Identity
    var stack: [String]
    var attributes: [String: String]
    var values: [UInt64]
    var times: [UInt64]
  }

  struct Profile: Hashable {
    var resource: [String: String]
    var type: String
    var began: UInt64
    var duration: UInt64
    var attributes: [String: String]
    var samples: [Sample]
  }

  var profiles: [Profile] = []
  var mappings: [String] = []

  /// The tables of a dictionary, merged from its pieces.
  private struct Dictionary {
    var tables: [UInt64: [ArraySlice<UInt8>]] = [:]

    func entry(_ table: UInt64, _ number: UInt64) throws -> [Wire.Field] {
      let entries = tables[table] ?? []
      try #require(entries.first?.isEmpty == true && entries.indices.contains(Int(number)), "\(table): \(number)")
      return try Wire.fields(entries[Int(number)])
    }

    func text(_ number: UInt64) throws -> String {
      let texts = tables[5] ?? []
      try #require(texts.first?.isEmpty == true && texts.indices.contains(Int(number)), "text \(number)")
      return try #require(String(validating: texts[Int(number)], as: UTF8.self))
    }

    func attributes(_ numbers: [UInt64]) throws -> [String: String] {
      var found: [String: String] = [:]
      for number in numbers {
        let fields = try entry(6, number)
        try #require(number > 0)
        let key = try text(OTLP.number(fields, 1))
        try #require(found[key] == nil)
        found[key] = try OTLP.value(#require(fields.first { $0.number == 2 }).bytes)
      }
      return found
    }

    /// The functions and lines of a stack, innermost first.
    func stack(_ number: UInt64) throws -> [String] {
      try OTLP.packed(try entry(7, number), 1)
        .flatMap { place -> [String] in
          try #require(place > 0)
          let location = try entry(2, place)
          _ = try entry(1, OTLP.number(location, 1))
          let lines = location.filter { $0.number == 3 }
          guard !lines.isEmpty else { return ["0x" + String(OTLP.number(location, 2), radix: 16)] }
          return try lines.map {
            let line = try Wire.fields($0.bytes)
            let function = try entry(3, OTLP.number(line, 1))
            let file = try text(OTLP.number(function, 3))
            return try text(OTLP.number(function, 1)) + (file.isEmpty ? "" : " \(file):\(OTLP.number(line, 2))")
          }
        }
    }
  }

  init(_ bytes: [UInt8]) throws {
    let data = try Wire.fields(bytes[...])
    try #require(data.allSatisfy { $0.number == 1 || $0.number == 2 })
    var dictionary = Dictionary()
    for piece in data where piece.number == 2 {
      for field in try Wire.fields(piece.bytes) { dictionary.tables[field.number, default: []].append(field.bytes) }
    }
    for table in UInt64(1)...7 { try #require(dictionary.tables[table]?.first?.isEmpty == true, "\(table)") }
    for part in data where part.number == 1 {
      let fields = try Wire.fields(part.bytes)
      let resource = try Self.resource(try #require(fields.first { $0.number == 1 }).bytes)
      for scope in fields where scope.number == 2 {
        for profile in try Wire.fields(scope.bytes) where profile.number == 2 {
          profiles.append(try Self.profile(profile.bytes, resource, dictionary))
        }
      }
    }
    for number in (dictionary.tables[1] ?? []).indices.dropFirst() {
      let fields = try dictionary.entry(1, UInt64(number))
      try #require(Self.number(fields, 1) < Self.number(fields, 2))
      mappings.append(
        "\(try dictionary.text(Self.number(fields, 4))) \(try dictionary.attributes(try Self.packed(fields, 5)))"
      )
    }
  }

  private static func profile(_ bytes: ArraySlice<UInt8>, _ resource: [String: String], _ dictionary: Dictionary) throws
    -> Profile
  {
    let fields = try Wire.fields(bytes)
    let type = try Wire.fields(try #require(fields.first { $0.number == 1 }).bytes)
    return Profile(
      resource: resource,
      type: "\(try dictionary.text(number(type, 1)))/\(try dictionary.text(number(type, 2)))",
      began: number(fields, 3),
      duration: number(fields, 4),
      attributes: try dictionary.attributes(try packed(fields, 11)),
      samples: try fields.filter { $0.number == 2 }
        .map { sample in
          let fields = try Wire.fields(sample.bytes)
          let attributes = try dictionary.attributes(try packed(fields, 2))
          return Sample(
            identity: Sample.Identity(stack: number(fields, 1), attributes: attributes),
            stack: try dictionary.stack(number(fields, 1)),
            attributes: attributes,
            values: try packed(fields, 4),
            times: try fields.filter { $0.number == 5 }.flatMap { try Wire.packedFixed($0.bytes) }
          )
        }
    )
  }

  private static func resource(_ bytes: ArraySlice<UInt8>) throws -> [String: String] {
    var found: [String: String] = [:]
    for attribute in try Wire.fields(bytes) where attribute.number == 1 {
      let fields = try Wire.fields(attribute.bytes)
      found[try #require(fields.first { $0.number == 1 }).text] = try value(
        #require(fields.first { $0.number == 2 }).bytes
      )
    }
    return found
  }

  private static func value(_ bytes: ArraySlice<UInt8>) throws -> String {
    let fields = try Wire.fields(bytes)
    try #require(fields.count == 1)
    return fields[0].number == 1 ? fields[0].text : String(Int64(bitPattern: fields[0].value))
  }

  private static func number(_ fields: [Wire.Field], _ number: UInt64) -> UInt64 {
    fields.last { $0.number == number }?.value ?? 0
  }

  private static func packed(_ fields: [Wire.Field], _ number: UInt64) throws -> [UInt64] {
    try fields.filter { $0.number == number }.flatMap { try Wire.packed($0.bytes) }
  }

  var text: String {
    func line(_ pairs: [String: String]) -> String {
      pairs.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: ", ")
    }
    var lines = mappings.map { "mapping \($0)" }
    for profile in profiles {
      lines.append("profile \(profile.type) began \(profile.began) duration \(profile.duration)")
      lines += ["  resource \(line(profile.resource))", "  attributes \(line(profile.attributes))"]
      for sample in profile.samples {
        lines.append(
          "  sample \(sample.values) at \(sample.times.map { $0 - profile.began }) \(line(sample.attributes))"
        )
        lines += sample.stack.map { "    \($0)" }
      }
    }
    return lines.joined(separator: "\n") + "\n"
  }
}

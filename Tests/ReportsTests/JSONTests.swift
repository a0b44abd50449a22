import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritBlame
@testable import CulpritReports

@Suite struct JSONTests {
  private struct Everything: Codable, Equatable {
    struct Inner: Codable, Equatable {
      var numbers: [Int8]
      var nothing: String?
    }
    struct Empty: Codable, Equatable {}
    enum Choice: Codable, Equatable {
      case first(name: String)
      case second
    }
    var text = "a\"b\\c\n\u{1b}[31m\u{202e}é😀\u{0}"
    var (big, small, negative) = (UInt64.max, Int64.min, -1.5)
    var doubles = [0, 0.1, 1e-9, 2.2250738585072014e-308, 1.7976931348623157e308, 123_456_789.123456789]
    var float: Float = 0.1
    var (yes, no) = (true, false)
    var inner = [Inner(numbers: [], nothing: nil), Inner(numbers: [1, -128], nothing: "")]
    var empty = Empty()
    var choices = [Choice.first(name: "x"), .second]
    var byName = ["key \"1\"": [[1, 2], []]]
    var absent: Int?
  }

  /// Foundation's decoder reads equal values.
  @Test func foundationDecodesEqualValues() throws {
    let value = Everything()
    let text = try encodedJSON(value)
    #expect(text.utf8.allSatisfy { $0 >= 0x20 } && !text.contains("absent"))
    #expect(try JSONDecoder().decode(Everything.self, from: Data(text.utf8)) == value)
    for (value, expected) in [([1, 2], "[1,2]"), ([], "[]")] as [([Int], String)] {
      #expect(try encodedJSON(value) == expected)
    }
    #expect(try encodedJSON("x") == "\"x\"" && encodedJSON(Everything.Empty()) == "{}")
  }

  @Test func rejectsNonFiniteNumbers() {
    for number in [Double.nan, .infinity] {
      #expect(throws: EncodingError.self) { try encodedJSON(["share": number]) }
    }
  }

  @Test func roundTripsReports() throws {
    let (stall, builder) = exampleStall()
    let report = builder.report(of: stall)
    let text = try report.json()
    #expect(!text.contains("\n"))
    let again = try JSONDecoder().decode(StallReport.self, from: Data(text.utf8))
    #expect(again == report && again.description == report.description)
    #expect(try again.json() == text)
  }

  /// The schema lists every key with its type, and requires the same keys as the decoder.
  @Test func schemaMatchesTypes() throws {
    let url = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
      .appending(path: "../../docs/internals/report-\(StallReport.formatVersion).schema.json")
    let schema = try #require(JSONSerialization.jsonObject(with: Data(contentsOf: url)) as? [String: Any])
    let definitions = try #require(schema["$defs"] as? [String: Any])
    var seen: Set<String> = []
    func compare(_ form: JSONForm, _ schema: [String: Any], _ place: String) {
      if let reference = schema["$ref"] as? String {
        let name = String(reference.dropFirst("#/$defs/".count))
        guard let definition = definitions[name] as? [String: Any] else {
          Issue.record("\(place) refers to \(reference), which is not defined")
          return
        }
        guard seen.insert(name).inserted else { return }
        compare(form, definition, name)
        return
      }
      if schema["const"] != nil { return }
      #expect(schema["type"] as? String == form.type, "\(place)")
      switch form {
      case .object(let members):
        let properties = schema["properties"] as? [String: [String: Any]] ?? [:]
        #expect(Set(properties.keys) == Set(members.map(\.key)), "\(place)")
        let required = members.filter(\.isRequired).map(\.key)
        #expect(Set(schema["required"] as? [String] ?? []) == Set(required), "\(place)")
        for member in members {
          if let property = properties[member.key] { compare(member.form, property, "\(place).\(member.key)") }
        }
      case .array(let element):
        if let items = schema["items"] as? [String: Any] {
          compare(element(), items, "\(place)[]")
        } else {
          Issue.record("\(place) has no items")
        }
      default: break
      }
    }
    compare(JSONForm(StallReport.self), schema, "report")
    #expect(seen == Set(definitions.keys))
  }
}

/// The JSON form of a type, derived from its requests to a decoder.
private indirect enum JSONForm {
  case string, number, integer, boolean
  case array(() -> JSONForm)
  case object([Member])

  struct Member {
    var key: String
    var isRequired: Bool
    var form: JSONForm
  }

  init(_ type: any Decodable.Type) {
    switch type {
    case is String.Type, is StallReport.Timestamp.Type: self = .string
    case is Bool.Type: self = .boolean
    case is Double.Type, is Seconds.Type: self = .number
    case is any BinaryInteger.Type: self = .integer
    case is any ReportCode.Type: self = .string
    case let list as any AnyList.Type: self = .array { JSONForm(list.elementType) }
    default:
      let decoder = FormDecoder()
      // Errors are ignored, because the decoder has recorded the keys by then.
      _ = try? type.init(from: decoder)
      self = .object(decoder.members)
    }
  }

  var type: String {
    switch self {
    case .string: "string"
    case .number: "number"
    case .integer: "integer"
    case .boolean: "boolean"
    case .array: "array"
    case .object: "object"
    }
  }
}

private protocol AnyList: Decodable {
  static var elementType: any Decodable.Type { get }
  init()
}
extension Array: AnyList where Element: Decodable { static var elementType: any Decodable.Type { Element.self } }

/// Records every request, and returns an arbitrary value.
private final class FormDecoder: Decoder {
  var members: [JSONForm.Member] = []
  let codingPath: [any CodingKey] = []
  let userInfo: [CodingUserInfoKey: Any] = [:]
  struct Unsupported: Error {}

  func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
    KeyedDecodingContainer(Members(decoder: self))
  }
  func unkeyedContainer() throws -> any UnkeyedDecodingContainer { throw Unsupported() }
  func singleValueContainer() throws -> any SingleValueDecodingContainer { throw Unsupported() }

  static func some<T: Decodable>(_ type: T.Type) throws -> T {
    let value: any Decodable =
      switch type {
      case is String.Type: ""
      case is Bool.Type: false
      case is Double.Type: 0.0
      case let list as any AnyList.Type: list.init()
      case let integer as any (BinaryInteger & Decodable).Type: integer.init(0)
      case is Seconds.Type: Seconds(.zero)
      case is StallReport.Timestamp.Type: StallReport.Timestamp(nanosecondsSince1970: 0)
      case let code as any ReportCode.Type: try Self.code(code)
      default: try type.init(from: FormDecoder())
      }
    guard let value = value as? T else { throw Unsupported() }
    return value
  }

  private static func code<Code: ReportCode>(_ type: Code.Type) throws -> Code {
    guard let code = Code(rawValue: "") else { throw Unsupported() }
    return code
  }

  struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: FormDecoder
    let codingPath: [any CodingKey] = []
    let allKeys: [Key] = []

    private func note(_ key: Key, _ type: any Decodable.Type, isRequired: Bool) {
      decoder.members.append(.init(key: key.stringValue, isRequired: isRequired, form: JSONForm(type)))
    }
    func contains(_ key: Key) -> Bool { true }
    func decodeNil(forKey key: Key) -> Bool { false }
    func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
      note(key, type, isRequired: true)
      return try FormDecoder.some(type)
    }
    private func absent<T: Decodable>(_ type: T.Type, _ key: Key) -> T? {
      note(key, type, isRequired: false)
      return nil
    }
    func decodeIfPresent<T: Decodable>(_ type: T.Type, forKey key: Key) -> T? { absent(type, key) }
    func decodeIfPresent(_ type: String.Type, forKey key: Key) -> String? { absent(type, key) }
    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) -> Bool? { absent(type, key) }
    func decodeIfPresent(_ type: Double.Type, forKey key: Key) -> Double? { absent(type, key) }
    func decodeIfPresent(_ type: Int.Type, forKey key: Key) -> Int? { absent(type, key) }
    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) -> Int32? { absent(type, key) }
    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) -> UInt32? { absent(type, key) }
    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) -> UInt64? { absent(type, key) }
    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type, forKey key: Key) throws
      -> KeyedDecodingContainer<Nested>
    { throw Unsupported() }
    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer { throw Unsupported() }
    func superDecoder() throws -> any Decoder { throw Unsupported() }
    func superDecoder(forKey key: Key) throws -> any Decoder { throw Unsupported() }
  }
}

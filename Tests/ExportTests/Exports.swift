import CulpritBlame
import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritExports

func export(_ recordings: [Recording], _ format: ExportFormat, isRaw: Bool = false) throws -> [UInt8] {
  var bytes: [UInt8] = []
  var exporter = Exporter(format, isRaw: isRaw, version: "0.1.0") { bytes += $0 }
  for recording in recordings { try exporter.add(recording) { names($0, in: recording) } }
  try exporter.finish()
  return bytes
}

func names(_ frame: StackFrame, in recording: Recording) -> [ResolvedFrame] {
  recording.names[frame.lookupAddress]
    ?? [ResolvedFrame(function: nil, module: "", address: .runtime(frame.lookupAddress), missing: .notMapped)]
}

func text(_ bytes: [UInt8]) throws -> String { try #require(String(validating: bytes, as: UTF8.self)) }

struct JSON {
  let value: Any?

  init(_ value: Any?) { self.value = value }

  init(bytes: [UInt8]) throws { value = try JSONSerialization.jsonObject(with: Data(bytes)) }

  subscript(key: String) -> JSON { JSON((value as? [String: Any])?[key]) }

  subscript(place: Int) -> JSON { JSON(array.indices.contains(place) ? array[place].value : nil) }

  var array: [JSON] { (value as? [Any])?.map(JSON.init) ?? [] }
  var string: String? { value as? String }
  var number: Double? { (value as? NSNumber)?.doubleValue }
  var integer: Int? { (value as? NSNumber)?.intValue }
  var isNull: Bool { value is NSNull }
}

import CulpritStallRecord
import CulpritSymbols

/// Writes a line with a JSON object for each address.
struct AddressJSON {
  /// Encoded members `function` and `rawName`, by the location of the name in the file.
  private var functions: [UnsafeRawPointer: [UInt8]] = [:]

  mutating func append(_ found: FoundAddress, to bytes: inout [UInt8]) {
    bytes.append(text: "{\"address\":\"0x")
    bytes.append(hexadecimal: found.address.value)
    bytes.append(text: "\"")
    if let symbol = found.symbol {
      bytes.append(text: ",\"symbol\":{\"name\":")
      bytes.append(quoted: symbol.name.bytes)
      bytes.append(text: ",\"start\":\"0x")
      bytes.append(hexadecimal: symbol.range.start)
      bytes.append(text: "\",\"end\":\"0x")
      bytes.append(hexadecimal: symbol.range.end)
      bytes.append(text: "\"")
      if let file = symbol.file {
        bytes.append(text: ",\"file\":")
        bytes.append(quoted: file.bytes)
      }
      bytes.append(text: "}")
    }
    if let stub = found.stub {
      bytes.append(text: ",\"stub\":")
      bytes.append(quoted: stub)
    }
    bytes.append(text: ",\"calls\":[")
    for (place, call) in found.calls.enumerated() {
      if place > 0 { bytes.append(UInt8(ascii: ",")) }
      bytes.append(UInt8(ascii: "{"))
      append(call, call.isInlined ? call.name : found.symbol?.name ?? call.name, to: &bytes)
    }
    bytes.append(text: "]")
    if let missing = found.missing {
      bytes.append(text: ",\"missing\":")
      bytes.append(quoted: missing.explanation)
    }
    bytes.append(text: "}\n")
  }

  private mutating func append(_ call: SourceCall, _ name: TextReference?, to bytes: inout [UInt8]) {
    if let name { bytes += function(name) } else { bytes.append(text: "\"function\":null,\"rawName\":null") }
    bytes.append(text: call.isInlined ? ",\"inlined\":true,\"file\":" : ",\"inlined\":false,\"file\":")
    if var file = call.file {
      file.withUTF8 { bytes.append(quoted: UnsafeRawBufferPointer($0)) }
    } else {
      bytes.append(text: "null")
    }
    bytes.append(text: ",\"line\":")
    bytes.append(decimal: UInt64(call.line))
    bytes.append(text: ",\"column\":")
    bytes.append(decimal: UInt64(call.column))
    bytes.append(text: ",\"discriminator\":")
    bytes.append(decimal: UInt64(call.discriminator))
    bytes.append(text: "}")
  }

  private mutating func function(_ name: TextReference) -> [UInt8] {
    if let known = functions[name.base] { return known }
    let raw = name.string
    let members = Array("\"function\":\(quotedJSON(demangledName(raw))),\"rawName\":\(quotedJSON(raw))".utf8)
    functions[name.base] = members
    return members
  }
}

extension [UInt8] {
  /// Appends decimal digits, ten times as fast as interpolation.
  mutating func append(decimal number: UInt64) {
    if number >= 10 { append(decimal: number / 10) }
    append(UInt8(ascii: "0") + UInt8(number % 10))
  }

  fileprivate mutating func append(hexadecimal number: UInt64) {
    if number >= 16 { append(hexadecimal: number >> 4) }
    let digit = UInt8(number & 15)
    append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
  }

  /// Appends text without creating a string.
  fileprivate mutating func append(text: StaticString) { text.withUTF8Buffer { append(contentsOf: $0) } }

  fileprivate mutating func append(quoted text: String) { append(contentsOf: quotedJSON(text).utf8) }

  /// Appends a JSON string, encoded like ``quotedJSON(_:)``.
  fileprivate mutating func append(quoted text: UnsafeRawBufferPointer) {
    let isPlain = text.allSatisfy {
      0x20 <= $0 && $0 < 0x7f && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
    }
    guard isPlain else { return append(quoted: String(decoding: text, as: UTF8.self)) }
    append(UInt8(ascii: "\""))
    append(contentsOf: text)
    append(UInt8(ascii: "\""))
  }
}

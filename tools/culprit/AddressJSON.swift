import CulpritStallRecord
import CulpritSymbols

/// Writes functions, files and lines of addresses as JSON, with one line and object per address.
struct AddressJSON {
  /// The encoded members `function` and `rawName` of each name, by the location of the name in the file.
  private var functions: [UnsafeRawPointer: [UInt8]] = [:]

  /// Appends the object for `found` to `bytes`.
  mutating func append(_ found: FoundAddress, to bytes: inout [UInt8]) {
    bytes.append(text: "{\"address\":\"0x")
    bytes.append(found.address.value, radix: 16)
    bytes.append(text: "\"")
    if let symbol = found.symbol {
      bytes.append(text: ",\"symbol\":{\"name\":")
      bytes.append(quoted: symbol.name.bytes)
      bytes.append(text: ",\"start\":\"0x")
      bytes.append(symbol.range.start, radix: 16)
      bytes.append(text: "\",\"end\":\"0x")
      bytes.append(symbol.range.end, radix: 16)
      bytes.append(text: "\"")
      if let file = symbol.file {
        bytes.append(text: ",\"file\":")
        bytes.append(quoted: file.bytes)
      }
      bytes.append(text: "}")
    }
    if let stub = found.stub { bytes.append(text: ",\"stub\":\(quotedJSON(stub))") }
    bytes.append(text: ",\"calls\":[")
    for (place, call) in found.calls.enumerated() {
      bytes.append(text: place == 0 ? "{" : ",{")
      append(call, call.isInlined ? call.name : found.symbol?.name ?? call.name, to: &bytes)
    }
    bytes.append(text: "]")
    if let missing = found.missing { bytes.append(text: ",\"missing\":\(quotedJSON(missing.explanation))") }
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
    bytes.append(UInt64(call.line), radix: 10)
    bytes.append(text: ",\"column\":")
    bytes.append(UInt64(call.column), radix: 10)
    bytes.append(text: ",\"discriminator\":")
    bytes.append(UInt64(call.discriminator), radix: 10)
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
  /// Appends the digits of `number`. Interpolation would take ten times as long.
  mutating func append(_ number: UInt64, radix: UInt64) {
    var place: UInt64 = 1
    while number / place >= radix { place *= radix }
    while place > 0 {
      let digit = UInt8(number / place % radix)
      append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
      place /= radix
    }
  }

  fileprivate mutating func append(text: String) { append(contentsOf: text.utf8) }

  /// Appends `text` as a JSON string, encoded like ``quotedJSON(_:)``.
  fileprivate mutating func append(quoted text: UnsafeRawBufferPointer) {
    let isPlain = text.allSatisfy {
      0x20 <= $0 && $0 < 0x7f && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\")
    }
    guard isPlain else { return append(text: quotedJSON(String(decoding: text, as: UTF8.self))) }
    append(UInt8(ascii: "\""))
    append(contentsOf: text)
    append(UInt8(ascii: "\""))
  }
}

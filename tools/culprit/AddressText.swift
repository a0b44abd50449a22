import CulpritStallRecord
import CulpritSymbols
import Glibc

/// Answers addresses one after the other, in the words of GNU addr2line or as JSON.
struct AddressText {
  /// What is printed of each address; the options of addr2line(1).
  struct Options {
    var functions = false
    var inlines = false
    var demangle = false
    var addresses = false
    var prettyPrint = false
    var basenames = false
  }

  /// Standard output gets pieces of this size, so that a pipe is not written to for every line.
  private static let pieceBytes = 64 << 10

  let options: Options
  let symbolizer: AddressSymbolizer
  let isJSON: Bool
  private var pending: [UInt8] = []
  private var demangled: [String: String] = [:]

  init(options: Options, symbolizer: AddressSymbolizer, isJSON: Bool) {
    self.options = options
    self.symbolizer = symbolizer
    self.isJSON = isJSON
  }

  /// Answers every line of standard input. Whoever writes a line and waits gets its answer.
  mutating func answerStandardInput() throws(InputError) {
    var rest: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 64 << 10)
    while true {
      let count = read(STDIN_FILENO, &chunk, chunk.count)
      if count < 0, errno == EINTR { continue }
      if count < 0 { throw InputError(description: "standard input: \(String(cString: strerror(errno)))") }
      rest += chunk[..<count]
      var start = 0
      while let end = rest[start...].firstIndex(of: UInt8(ascii: "\n")) {
        answer(rest[start..<end])
        start = end + 1
      }
      rest.removeFirst(start)
      if count == 0 {
        if !rest.isEmpty { answer(rest[...]) }
        flush()
        return
      }
      flush()
    }
  }

  /// Answers the address that `line` begins with.
  mutating func answer(_ line: ArraySlice<UInt8>) {
    let address = Self.address(line)
    let description = symbolizer.describe(FileAddress(address))
    if isJSON { appendJSON(description) } else { append(description) }
    if pending.count >= Self.pieceBytes { flush() }
  }

  /// Writes what has been answered.
  mutating func flush() {
    output.print(bytes: pending)
    pending.removeAll(keepingCapacity: true)
  }

  /// A number in base 16, as strtoull(3) reads it: what is none is 0.
  private static func address(_ line: ArraySlice<UInt8>) -> UInt64 {
    var digits = line.drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    if digits.starts(with: "0x".utf8) || digits.starts(with: "0X".utf8) { digits = digits.dropFirst(2) }
    var value: UInt64 = 0
    for digit in digits {
      let number: UInt8
      switch digit {
      case UInt8(ascii: "0")...UInt8(ascii: "9"): number = digit - UInt8(ascii: "0")
      case UInt8(ascii: "a")...UInt8(ascii: "f"): number = digit - UInt8(ascii: "a") + 10
      case UInt8(ascii: "A")...UInt8(ascii: "F"): number = digit - UInt8(ascii: "A") + 10
      default: return value
      }
      guard value >> 60 == 0 else { return .max }
      value = value << 4 | UInt64(number)
    }
    return value
  }

  // MARK: addr2line

  private mutating func append(_ description: AddressDescription) {
    if options.addresses {
      // As many digits as an address of the file has.
      let count = symbolizer.addressBytes * 2
      let digits = String(description.address.value, radix: 16).suffix(count)
      add("0x" + String(repeating: "0", count: count - digits.count) + digits)
      add(options.prettyPrint ? ": " : "\n")
    }
    let calls = description.calls
    guard !calls.isEmpty || description.functionName != nil else {
      if options.functions { add(options.prettyPrint ? "?? " : "??\n") }
      add("??:0\n")
      return
    }
    guard let innermost = calls.first else {
      appendName(description.functionName)
      add("\(printable(description.symbol?.file ?? "??")):?\n")
      return
    }
    append(innermost, description, isOutermost: calls.count == 1)
    guard options.inlines else { return }
    for place in calls.indices.dropFirst() {
      if options.prettyPrint { add(" (inlined by) ") }
      append(calls[place], description, isOutermost: place == calls.count - 1)
    }
  }

  private mutating func append(_ call: AddressCall, _ description: AddressDescription, isOutermost: Bool) {
    // A name for linkers in the debug information is taken; a plain one may be that of a copy, which the symbol tells.
    let isPlain = !call.isLinkageName && isOutermost
    appendName(isPlain ? description.symbol?.name ?? call.rawName : call.rawName)
    var file = call.file ?? "??"
    if options.basenames, let slash = file.utf8.lastIndex(of: UInt8(ascii: "/")) {
      file = String(file[file.index(after: slash)...])
    }
    // addr2line puts a slash between every directory and file, also where the directory is "/", as it is for the code that
    // the Swift compiler makes.
    if file.hasPrefix("/<") { add("/") }
    add(printable(file))
    add(":")
    if call.line == 0 {
      add("?\n")
    } else {
      add("\(call.line)")
      // addr2line prints that of the innermost call for all of them.
      let discriminator = description.calls[0].discriminator
      add(discriminator > 0 ? " (discriminator \(discriminator))\n" : "\n")
    }
  }

  private mutating func appendName(_ name: String?) {
    guard options.functions else { return }
    add(printed(name))
    add(options.prettyPrint ? " at " : "\n")
  }

  private mutating func printed(_ name: String?) -> String {
    guard let name, !name.isEmpty else { return "??" }
    guard options.demangle else { return printable(name) }
    if let known = demangled[name] { return known }
    let full = printable(demangledName(name))
    demangled[name] = full
    return full
  }

  private mutating func add(_ text: String) { pending.append(contentsOf: text.utf8) }

  // MARK: JSON

  private mutating func appendJSON(_ description: AddressDescription) {
    add("{\"address\":\"\(description.address)\"")
    if let symbol = description.symbol {
      add(",\"symbol\":{\"name\":\(quotedJSON(symbol.name)),\"start\":\"\(symbol.start)\",\"end\":\"\(symbol.end)\"")
      if let file = symbol.file { add(",\"file\":\(quotedJSON(file))") }
      add("}")
    }
    if let stub = description.stub { add(",\"stub\":\(quotedJSON(stub))") }
    add(",\"calls\":[")
    for (place, call) in description.calls.enumerated() {
      add(place == 0 ? "{" : ",{")
      let name = call.isInlined ? call.rawName : description.symbol?.name ?? call.rawName
      add("\"function\":\(name.map { quotedJSON(demangledName($0)) } ?? "null")")
      add(",\"rawName\":\(name.map(quotedJSON) ?? "null")")
      add(",\"inlined\":\(call.isInlined)")
      add(",\"file\":\(call.file.map(quotedJSON) ?? "null"),\"line\":\(call.line),\"column\":\(call.column)")
      add(",\"discriminator\":\(call.discriminator)}")
    }
    add("]")
    if let missing = description.missing { add(",\"missing\":\(quotedJSON(missing.explanation))") }
    add("}\n")
  }
}

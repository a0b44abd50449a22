import CulpritStallRecord
import CulpritSymbols
import Glibc

/// Symbolizes addresses one by one, in the format of GNU addr2line or as JSON.
struct AddressText {
  struct Options {
    var functions = false
    var inlines = false
    var demangle = false
    var addresses = false
    var prettyPrint = false
    var basenames = false
  }

  /// Size of a piece of output. Large pieces are faster to write.
  private static let pieceBytes = 64 << 10

  let options: Options
  let symbolizer: AddressSymbolizer
  let isJSON: Bool
  private var pending: [UInt8] = []
  private var json = AddressJSON()
  /// Demangled names by the location of the name in the file.
  private var demangled: [UnsafeRawPointer: [UInt8]] = [:]

  init(options: Options, symbolizer: AddressSymbolizer, isJSON: Bool) {
    self.options = options
    self.symbolizer = symbolizer
    self.isJSON = isJSON
  }

  /// Symbolizes each line of standard input. Flushes before waiting for input, for interactive use.
  mutating func answerStandardInput() throws(InputError) {
    var rest: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 64 << 10)
    while true {
      let count = read(STDIN_FILENO, &chunk, chunk.count)
      if count < 0, errno == EINTR { continue }
      if count < 0 { throw InputError(description: "standard input: \(String(cString: strerror(errno)))") }
      rest += chunk[..<count]
      let answered = rest.withUnsafeBytes { answerLines(of: $0) }
      rest.removeFirst(answered)
      if count == 0 {
        if !rest.isEmpty { rest.withUnsafeBytes { answer($0[...]) } }
        flush()
        return
      }
      flush()
    }
  }

  /// Symbolizes complete lines. Returns their total size in bytes.
  private mutating func answerLines(of text: UnsafeRawBufferPointer) -> Int {
    var start = 0
    while let end = text[start...].firstIndex(of: UInt8(ascii: "\n")) {
      answer(text[start..<end])
      start = end + 1
    }
    return start
  }

  mutating func answer(_ line: Slice<UnsafeRawBufferPointer>) {
    let address = Self.address(line)
    let found = symbolizer.find(FileAddress(address))
    if isJSON { json.append(found, to: &pending) } else { append(found) }
    if pending.count >= Self.pieceBytes { flush() }
  }

  mutating func flush() {
    output.print(bytes: pending)
    pending.removeAll(keepingCapacity: true)
  }

  /// Parses hexadecimal digits like strtoull(3). Returns 0 for other text.
  private static func address(_ line: Slice<UnsafeRawBufferPointer>) -> UInt64 {
    var digits = line.drop { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") }
    let second = digits.dropFirst().first
    if digits.first == UInt8(ascii: "0"), second == UInt8(ascii: "x") || second == UInt8(ascii: "X") {
      digits = digits.dropFirst(2)
    }
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

  private mutating func append(_ found: FoundAddress) {
    if options.addresses {
      // The number of digits depends on the file's address size.
      let count = symbolizer.addressBytes * 2
      add("0x" + digits(found.address.value, count, radix: 16).suffix(count))
      add(options.prettyPrint ? ": " : "\n")
    }
    let calls = found.calls
    guard let innermost = calls.first else {
      if let symbol = found.symbol {
        appendName(symbol.name)
        if let file = symbol.file { add(file) } else { add("??") }
        add(":?\n")
      } else if let stub = found.stub {
        if options.functions { add(printable(options.demangle ? demangledName(stub) : stub) + separator) }
        add("??:?\n")
      } else {
        if options.functions { add(options.prettyPrint ? "?? " : "??\n") }
        add("??:0\n")
      }
      return
    }
    append(innermost, found, isOutermost: calls.count == 1)
    guard options.inlines else { return }
    for place in calls.indices.dropFirst() {
      if options.prettyPrint { add(" (inlined by) ") }
      append(calls[place], found, isOutermost: place == calls.count - 1)
    }
  }

  private mutating func append(_ call: SourceCall, _ found: FoundAddress, isOutermost: Bool) {
    // A linkage name from debug information is exact. A plain name can be shared by copies of a function, so the symbol
    // takes precedence.
    let isPlain = !call.isLinkageName && isOutermost
    appendName(isPlain ? found.symbol?.name ?? call.name : call.name)
    var file = call.file ?? "??"
    if options.basenames { file = file.lastComponent }
    // addr2line separates directory and file by a slash even if the directory is "/", as in code generated by the Swift
    // compiler.
    if file.hasPrefix("/<") { add("/") }
    add(printable(file))
    add(":")
    if call.line == 0 {
      add("?\n")
    } else {
      pending.append(decimal: UInt64(call.line))
      // addr2line prints the innermost call's discriminator for all calls.
      let discriminator = found.calls[0].discriminator
      add(discriminator > 0 ? " (discriminator \(discriminator))\n" : "\n")
    }
  }

  private var separator: String { options.prettyPrint ? " at " : "\n" }

  private mutating func appendName(_ name: TextReference?) {
    guard options.functions else { return }
    if let name, name.count > 0 {
      if options.demangle { pending += demangled(name) } else { add(name) }
    } else {
      add("??")
    }
    add(separator)
  }

  private mutating func demangled(_ name: TextReference) -> [UInt8] {
    if let known = demangled[name.base] { return known }
    let full = Array(printable(demangledName(name.string)).utf8)
    demangled[name.base] = full
    return full
  }

  private mutating func add(_ text: TextReference) {
    // Most names are printable ASCII and need no conversion.
    let isPlain = text.bytes.allSatisfy { 0x20 <= $0 && $0 < 0x7f }
    if isPlain { pending.append(contentsOf: text.bytes) } else { add(printable(text.string)) }
  }

  private mutating func add(_ text: String) { pending.append(contentsOf: text.utf8) }
}

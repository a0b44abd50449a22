/// A demangled C++ name, shortened for readers: without argument types, template arguments and return type.
///
///     int shop::sum<int, std::vector<int> >(std::vector<int> const&)         shop::sum
///     shop::Index::find(int)::{lambda(char)#1}::operator()(char) const      lambda #1 in shop::Index::find
struct CxxName {
  private(set) var short: String

  private static let thunks = [
    "non-virtual thunk to ", "virtual thunk to ", "covariant return thunk to ", "transaction clone for ",
    "TLS wrapper function for ",
  ]

  private static let heads = [
    ("TLS init function for ", "initialization of thread-local "), ("guard variable for ", "guard variable of "),
    ("vtable for ", "vtable for "), ("VTT for ", "VTT for "), ("typeinfo name for ", "typeinfo name for "),
    ("typeinfo for ", "typeinfo for "), ("construction vtable for ", "construction vtable for "),
  ]

  init(demangled: String) {
    var text = Substring(demangled)
    while let thunk = Self.thunks.first(where: { text.hasPrefix($0) }) { text = text.dropFirst(thunk.count) }
    var words = ""
    if let head = Self.heads.first(where: { text.hasPrefix($0.0) }) {
      words = head.1
      text = text.dropFirst(head.0.count)
    }
    var reader = CxxNameReader(text)
    let name = reader.read()
    short = name.isEmpty ? demangled : words + name
  }

  /// Reads the first names of a mangled name that the C++ library cannot demangle.
  init?(mangled: String) {
    var bytes = mangled.utf8.dropFirst(2)
    while let first = bytes.first, [UInt8(ascii: "L"), UInt8(ascii: "N"), UInt8(ascii: "K")].contains(first) {
      bytes = bytes.dropFirst()
    }
    var names: [String] = []
    while let count = Int(String(decoding: bytes.prefix { $0 >= 48 && $0 < 58 }, as: UTF8.self)), names.count < 16 {
      bytes = bytes.drop { $0 >= 48 && $0 < 58 }
      guard count > 0, count <= bytes.count else { break }
      let name = String(decoding: bytes.prefix(count), as: UTF8.self)
      if name != "_GLOBAL__N_1" { names.append(name) }
      bytes = bytes.dropFirst(count)
    }
    guard !names.isEmpty else { return nil }
    short = names.joined(separator: "::")
  }
}

private struct CxxNameReader {
  private enum Component {
    case name(String)
    case function(String)
    case lambda(String)
  }

  private let bytes: [UInt8]
  private var place = 0
  private var components: [Component] = []
  private var current: [UInt8] = []

  init(_ text: Substring) { bytes = Array(text.utf8) }

  mutating func read() -> String {
    while place < bytes.count {
      switch bytes[place] {
      case UInt8(ascii: ":") where has("::"):
        endComponent()
        place += 2
      case UInt8(ascii: " "):
        if has(" [clone") { return finished() }
        // The preceding text was part of the return type.
        components = []
        current = []
        place += 1
      case UInt8(ascii: "<"): place = endOfGroup(place)
      case UInt8(ascii: "["): place = endOfGroup(place)
      case UInt8(ascii: "{"): readLambda()
      case UInt8(ascii: "'"): readQuoted()
      case UInt8(ascii: "("):
        if current.isEmpty {
          // "(*" and "(&" start a function pointer or a type in brackets. Other brackets are an unnamed namespace.
          if has("(*") || has("(&") {
            place += 2
            continue
          }
          place = endOfGroup(place)
          if has("::") { place += 2 }
          continue
        }
        let name = String(decoding: current, as: UTF8.self)
        current = []
        components.append(.function(name))
        place = endOfGroup(place)
        guard skipQualifiers() else { return finished() }
      case UInt8(ascii: "o") where current.isEmpty && isOperator: readOperator()
      default:
        current.append(bytes[place])
        place += 1
      }
    }
    return finished()
  }

  // MARK: Components

  private mutating func endComponent() {
    let name = String(decoding: current, as: UTF8.self)
    current = []
    // These namespaces only version a library and do not appear in source code.
    guard !name.isEmpty, !["__cxx11", "__1", "__ndk1", "_V2"].contains(name) else { return }
    components.append(.name(name))
  }

  private mutating func finished() -> String {
    endComponent()
    var parts: [String] = []
    var path: [String] = []
    func closePath() {
      if !path.isEmpty { parts.append(path.joined(separator: "::")) }
      path = []
    }
    for (number, component) in components.enumerated() {
      switch component {
      case .name(let name): path.append(name)
      case .function(let name):
        if path.isEmpty, number > 0, case .lambda = components[number - 1], name == "operator()" || name == "_FUN" {
          continue
        }
        path.append(name)
        closePath()
      case .lambda(let name):
        closePath()
        parts.append(name)
      }
    }
    closePath()
    return parts.reversed().joined(separator: " in ")
  }

  /// "{lambda(int)#1}", "{unnamed type#2}", "{default arg#1}".
  private mutating func readLambda() {
    let end = endOfGroup(place)
    let group = bytes[place..<end]
    let number = group.lastIndex(of: UInt8(ascii: "#")).map { group[group.index(after: $0)...].dropLast() } ?? []
    let digits = String(decoding: number, as: UTF8.self)
    if has("{lambda") {
      components.append(.lambda("lambda #\(digits)"))
    } else {
      let word = group.dropFirst().prefix { $0 != UInt8(ascii: "#") && $0 != UInt8(ascii: "}") }
      components.append(.name(String(decoding: word, as: UTF8.self) + (digits.isEmpty ? "" : " #\(digits)")))
    }
    current = []
    place = end
  }

  /// "'lambda0'(int)", "'unnamed'" in the format of LLVM's demangler.
  private mutating func readQuoted() {
    var end = place + 1
    while end < bytes.count, bytes[end] != UInt8(ascii: "'") { end += 1 }
    let word = String(decoding: bytes[min(place + 1, end)..<end], as: UTF8.self)
    place = min(end + 1, bytes.count)
    guard word.hasPrefix("lambda") else {
      current += Array(word.utf8)
      return
    }
    let number = Int(word.dropFirst(6)).map { $0 + 2 } ?? 1
    components.append(.lambda("lambda #\(number)"))
    if place < bytes.count, bytes[place] == UInt8(ascii: "(") { place = endOfGroup(place) }
  }

  // MARK: Operators

  private var isOperator: Bool {
    guard has("operator"), place + 8 < bytes.count else { return false }
    let next = bytes[place + 8]
    return !next.isLetter && !next.isDigit && next != UInt8(ascii: "_")
  }

  private static let symbols = [
    "()", "[]", "<=>", "<<=", ">>=", "->*", "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "++", "--", "+=",
    "-=",
    "*=", "/=", "%=", "^=", "&=", "|=", "<", ">", "+", "-", "*", "/", "%", "^", "&", "|", "~", "!", "=", ",",
  ].map { Array($0.utf8) }

  private mutating func readOperator() {
    place += 8
    current = Array("operator".utf8)
    if let symbol = Self.symbols.first(where: { bytes[place...].starts(with: $0) }) {
      current += symbol
      place += symbol.count
      // "operator< <int>"
      if place + 1 < bytes.count, bytes[place] == UInt8(ascii: " "), bytes[place + 1] == UInt8(ascii: "<") {
        place += 1
      }
      return
    }
    // new, delete[], co_await, ""_suffix, or the target type of a conversion, up to the arguments.
    while place < bytes.count, bytes[place] != UInt8(ascii: "(") {
      if bytes[place] == UInt8(ascii: "<") {
        place = endOfGroup(place)
        continue
      }
      current.append(bytes[place])
      place += 1
    }
    while current.last == UInt8(ascii: " ") { current.removeLast() }
  }

  // MARK: Text

  private func has(_ word: String) -> Bool { bytes[place...].starts(with: word.utf8) }

  /// Skips the text after a function's arguments. Returns false at the end of the name.
  private mutating func skipQualifiers() -> Bool {
    while place < bytes.count {
      if has("::") {
        place += 2
        return true
      }
      if has("[abi:") {
        place = endOfGroup(place)
        continue
      }
      guard let word = [" const", " volatile", " &&", " &", " noexcept"].first(where: has) else { return false }
      place += word.utf8.count
    }
    return false
  }

  private func endOfGroup(_ start: Int) -> Int {
    var open: [UInt8] = []
    var next = start
    while next < bytes.count {
      let byte = bytes[next]
      switch byte {
      case UInt8(ascii: "("), UInt8(ascii: "["), UInt8(ascii: "{"): open.append(byte)
      case UInt8(ascii: "<"):
        // "operator<", "operator<<": part of a name.
        if isNameOfOperator(before: next) { break }
        open.append(byte)
      case UInt8(ascii: ">"):
        // Inside round brackets, ">" is a comparison; after a hyphen, an arrow.
        if open.last == UInt8(ascii: "<"), bytes[next - 1] != UInt8(ascii: "-"), !isNameOfOperator(before: next) {
          open.removeLast()
        }
      case UInt8(ascii: ")"): Self.close(UInt8(ascii: "("), &open)
      case UInt8(ascii: "]"): Self.close(UInt8(ascii: "["), &open)
      case UInt8(ascii: "}"): Self.close(UInt8(ascii: "{"), &open)
      default: break
      }
      next += 1
      if open.isEmpty { return next }
    }
    return next
  }

  private static func close(_ opening: UInt8, _ open: inout [UInt8]) {
    guard let place = open.lastIndex(of: opening) else { return }
    open.removeSubrange(place...)
  }

  private func isNameOfOperator(before end: Int) -> Bool {
    var begin = end
    while begin > 0,
      [UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "="), UInt8(ascii: "-")].contains(bytes[begin - 1])
    {
      begin -= 1
    }
    return begin >= 8 && bytes[begin - 8..<begin].elementsEqual("operator".utf8)
  }
}

import CulpritStallRecord

/// Numbers and names as reports print them.
enum Formatting {
  /// "80 %", "<1 %": a share is an estimate, and digits that it does not have would lie.
  static func percent(_ fraction: Double) -> String {
    let rounded = Int((min(1, max(0, fraction)) * 100).rounded())
    if rounded == 0, fraction > 0 { return "<1 %" }
    if rounded == 100, fraction < 1 { return ">99 %" }
    return "\(rounded) %"
  }

  /// "61–91 %".
  static func interval(_ low: Double, _ high: Double) -> String {
    "\(Int((low * 100).rounded(.down)))–\(Int((high * 100).rounded(.up))) %"
  }

  /// "4.01 s", "250 ms", "820 µs": three digits are enough for a stall.
  static func duration(_ duration: Duration) -> String {
    let seconds = duration.inSeconds
    if seconds >= 360_000 { return "\(Int(min(seconds / 86_400, 1e9))) d" }
    if seconds >= 3600 { return "\(Int(seconds) / 3600) h \(Int(seconds) % 3600 / 60) min" }
    if seconds >= 100 { return "\(Int(seconds.rounded())) s" }
    if seconds >= 1 { return fixed(seconds, decimals: 2) + " s" }
    if seconds >= 0.001 || seconds == 0 { return "\(Int((seconds * 1000).rounded())) ms" }
    return "\(Int((seconds * 1_000_000).rounded())) µs"
  }

  /// `number` with so many digits after the point.
  static func fixed(_ number: Double, decimals: Int) -> String {
    let scale = (0..<decimals).reduce(1) { value, _ in value * 10 }
    let scaled = Int((number * Double(scale)).rounded())
    let fraction = String(scaled % scale)
    return "\(scaled / scale)." + String(repeating: "0", count: decimals - fraction.count) + fraction
  }

  /// `text` filled up with spaces to `width` characters, on the left.
  static func right(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }

  /// `text` cut to `width` characters; what is missing is in the middle, because both ends of a name tell something. It is `gap` that
  /// stands there.
  static func fitted(_ text: String, _ width: Int, gap: String = "…") -> String {
    guard text.count > width else { return text }
    guard width > gap.count + 3 else { return String(text.prefix(max(0, width))) }
    let head = (width - gap.count) / 2
    return text.prefix(head) + gap + text.suffix(width - gap.count - head)
  }

  /// A bar of at most `width` characters, in eighths of a character.
  static func bar(_ fraction: Double, width: Int) -> String {
    let eighths = Int((min(1, max(0, fraction)) * Double(width * 8)).rounded())
    let partial = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]
    let bar = String(repeating: "█", count: eighths / 8) + partial
    return bar + String(repeating: " ", count: width - bar.count)
  }

  /// What stays with the number before it.
  private static let units: Set<Substring> = ["%", "s", "ms", "µs", "d", "h", "min"]

  /// `text` broken at spaces into lines of at most `width` characters; a longer word has a line of its own. A unit stays with
  /// its number.
  static func wrapped(_ text: String, _ width: Int) -> [String] {
    var lines: [String] = []
    var line = ""
    let words = text.split(separator: " ")
      .reduce(into: [String]()) { words, word in
        let unit = word.prefix { $0 != "," && $0 != ";" && $0 != "." && $0 != ")" && $0 != ":" }
        if units.contains(unit), words.last?.last?.isNumber == true, let last = words.popLast() {
          words.append(last + " " + word)
        } else {
          words.append(String(word))
        }
      }
    for word in words {
      if !line.isEmpty, line.count + 1 + word.count > width {
        lines.append(line)
        line = ""
      }
      line += (line.isEmpty ? "" : " ") + word
    }
    return line.isEmpty ? lines : lines + [line]
  }

  /// Where a function is, in short: "Catalog.swift:24", or the module when the line is not known; whether it has been inlined;
  /// and whether it awaits there what was called. Empty where its name says that already.
  static func origin(_ function: StallReport.Function) -> String {
    [place(function), function.isInlined ? "inlined" : "", function.isAwaiting ? "awaits" : ""].filter { !$0.isEmpty }
      .joined(separator: ", ")
  }

  private static func place(_ function: StallReport.Function) -> String {
    let name = function.displayName
    func unlessNamed(_ place: String) -> String { name.hasSuffix(" (\(place))") ? "" : place }
    if let location = function.location { return unlessNamed("\(printable(location.fileName)):\(location.line)") }
    guard !function.moduleName.isEmpty else { return "no module" }
    guard !function.isAddress(name) else { return "" }
    // Where it has no name, its address is what it can be found by.
    if function.noName != nil { return function.name }
    return unlessNamed(printable(function.moduleName))
  }

  /// The name of a function and where it is: "load() (Catalog.swift:24)".
  ///
  /// - Parameters:
  ///   - function: The function.
  ///   - gap: What is between the two.
  /// - Returns: The name alone, where it says both.
  static func placed(_ function: StallReport.Function, gap: String = " ") -> String {
    let origin = origin(function)
    return origin.isEmpty ? function.displayName : "\(function.displayName)\(gap)(\(origin))"
  }

  /// " (text)", to be put behind something; empty where `text` is.
  static func inBrackets(_ text: String) -> String { text.isEmpty ? "" : " (\(text))" }

  /// The most modules that are named where functions are summed up.
  private static let modulesMax = 3

  /// "… 52 frames: swift-nio, libdispatch.so": functions that are not told one by one, by the packages and modules that they are from.
  static func between(_ functions: some Collection<StallReport.Function>, _ noun: String = "frame") -> String {
    var counts: [String: Int] = [:]
    for function in functions { counts[function.package ?? function.moduleName, default: 0] += 1 }
    let modules = counts.filter { !$0.key.isEmpty }
      .sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }
    var names = modules.prefix(modulesMax).map { printable($0.key) }
    if modules.count > modulesMax { names.append("…") }
    return "… \(count(functions.count, noun))\(names.isEmpty ? "" : ": ")\(names.joined(separator: ", "))"
  }

  /// "1 sample", "2 samples".
  static func count(_ number: Int, _ noun: String) -> String { "\(number) \(noun)\(number == 1 ? "" : "s")" }
}

extension StallReport.Function {
  /// Where the function is, as reports have it: "Catalog.swift:24, inlined"; empty where its name says that already.
  package var origin: String { Formatting.origin(self) }
}

/// `text` broken at spaces into lines of at most `width` characters, as reports do it; a longer word has a line of its own.
package func divided(_ text: String, _ width: Int) -> [String] { Formatting.wrapped(text, width) }

/// `duration` as reports print it: "5.01 s", "250 ms".
package func readable(_ duration: Duration) -> String { Formatting.duration(duration) }

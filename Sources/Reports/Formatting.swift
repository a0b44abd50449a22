import CulpritBlame
import CulpritStallRecord

extension Formatting {
  /// Returns a percentage such as "80 %" or "<1 %". Shares are estimates, so decimals would be meaningless.
  static func percent(_ fraction: Double) -> String {
    let rounded = Int((min(1, max(0, fraction)) * 100).rounded())
    if rounded == 0, fraction > 0 { return "<1 %" }
    if rounded == 100, fraction < 1 { return ">99 %" }
    return "\(rounded) %"
  }

  static func interval(_ low: Double, _ high: Double) -> String {
    "\(Int((low * 100).rounded(.down)))–\(Int((high * 100).rounded(.up))) %"
  }

  /// Returns a duration with three significant digits, such as "4.01 s", "250 ms" or "820 µs".
  static func duration(_ duration: Duration) -> String {
    let seconds = duration.inSeconds
    if seconds >= 360_000 { return "\(Int(min(seconds / 86_400, 1e9))) d" }
    if seconds >= 3600 { return "\(Int(seconds) / 3600) h \(Int(seconds) % 3600 / 60) min" }
    if seconds >= 100 { return "\(Int(seconds.rounded())) s" }
    if seconds >= 1 { return fixed(seconds, decimals: 2) + " s" }
    if seconds >= 0.001 || seconds == 0 { return "\(Int((seconds * 1000).rounded())) ms" }
    return "\(Int((seconds * 1_000_000).rounded())) µs"
  }

  static func fixed(_ number: Double, decimals: Int) -> String {
    let scale = (0..<decimals).reduce(1) { value, _ in value * 10 }
    let scaled = Int((number * Double(scale)).rounded())
    return "\(scaled / scale)." + digits(scaled % scale, decimals)
  }

  static func right(_ text: String, _ width: Int) -> String {
    String(repeating: " ", count: max(0, width - text.count)) + text
  }

  static func bar(_ fraction: Double, width: Int) -> String {
    let eighths = Int((min(1, max(0, fraction)) * Double(width * 8)).rounded())
    let partial = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]
    let bar = String(repeating: "█", count: eighths / 8) + partial
    return bar + String(repeating: " ", count: width - bar.count)
  }

  private static let units: Set<Substring> = ["%", "s", "ms", "µs", "d", "h", "min"]

  /// Wraps `text` at spaces. A word that exceeds the width gets its own line. A unit stays with its number.
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

  /// Returns the short location of a function, as in "Catalog.swift:24", or its module, and whether the function was
  /// inlined or awaits its callee. Empty if the name contains the location.
  package static func origin(_ function: StallReport.Function) -> String {
    [place(function), function.isInlined ? "inlined" : "", function.isAwaiting ? "awaits" : ""].filter { !$0.isEmpty }
      .joined(separator: ", ")
  }

  private static func place(_ function: StallReport.Function) -> String {
    let name = function.displayName
    func unlessNamed(_ place: String) -> String { name.hasSuffix(" (\(place))") ? "" : place }
    if let location = function.location { return unlessNamed("\(printable(location.fileName)):\(location.line)") }
    guard !function.moduleName.isEmpty else { return "no module" }
    guard !function.isAddress(name) else { return "" }
    // For a function without a symbol name, `name` is its address, including the module.
    if function.noName != nil { return function.name }
    return unlessNamed(printable(function.moduleName))
  }

  /// Returns the name and the location of a function, as in "load() (Catalog.swift:24)".
  static func placed(_ function: StallReport.Function, gap: String = " ") -> String {
    let origin = origin(function)
    return origin.isEmpty ? function.displayName : "\(function.displayName)\(gap)(\(origin))"
  }

  static func inBrackets(_ text: String) -> String { text.isEmpty ? "" : " (\(text))" }

  private static let modulesMax = 3

  /// Returns a summary of functions by package and module, as in "… 52 frames: swift-nio, libdispatch.so".
  static func between(_ functions: some Collection<StallReport.Function>, _ noun: String = "frame") -> String {
    var counts: [String: Int] = [:]
    for function in functions { counts[function.package ?? function.moduleName, default: 0] += 1 }
    let modules = counts.filter { !$0.key.isEmpty }
      .ordered { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }
    var names = modules.prefix(modulesMax).map { printable($0.key) }
    if modules.count > modulesMax { names.append("…") }
    return "… \(count(functions.count, noun))\(names.isEmpty ? "" : ": ")\(names.joined(separator: ", "))"
  }
}

package func divided(_ text: String, _ width: Int) -> [String] { Formatting.wrapped(text, width) }

package func readable(_ duration: Duration) -> String { Formatting.duration(duration) }

import CulpritStallRecord

extension Watchdog.Metrics {
  /// Returns the metrics in Prometheus' text format, version 0.0.4 (`text/plain; version=0.0.4`).
  ///
  /// - Parameter labels: Labels added to every number, for several services with the same collector. Names that are
  ///   invalid in Prometheus, or used by Culprit's own labels, are ignored.
  /// - Returns: The text, which ends with a newline.
  public func prometheusText(labels: [String: String] = [:]) -> String {
    PrometheusText.text(families, labels)
  }
}

/// https://prometheus.io/docs/instrumenting/exposition_formats/
enum PrometheusText {
  static let ownLabels: Set = ["kind", "source", "le", "ending", "version"]

  /// Whether `name` is valid in Prometheus, and neither reserved nor used by Culprit's metrics.
  static func isLabel(_ name: String) -> Bool {
    guard let first = name.utf8.first, !name.hasPrefix("__"), !ownLabels.contains(name) else { return false }
    func isLetter(_ byte: UInt8) -> Bool {
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "_"): true
      default: false
      }
    }
    return isLetter(first)
      && name.utf8.allSatisfy { isLetter($0) || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
  }

  static func text(_ families: [Watchdog.Metrics.Family], _ labels: [String: String]) -> String {
    let common = labels.filter { isLabel($0.key) }.ordered { $0.key < $1.key }
      .map { Watchdog.Metrics.Value.Label(name: $0.key, value: $0.value) }
    var text = ""
    for family in families {
      text += "# HELP \(family.name) \(escaped(family.help, quotes: false)).\n"
      text += "# TYPE \(family.name) \(family.type.rawValue)\n"
      for sample in family.samples {
        text += family.name + sample.suffix
        let all = (common + sample.labels).map { "\($0.name)=\"\(escaped($0.value, quotes: true))\"" }
        if !all.isEmpty { text += "{\(all.joined(separator: ","))}" }
        text += " " + number(sample.number) + "\n"
      }
    }
    return text
  }

  static func escaped(_ text: String, quotes: Bool) -> String {
    let special: [UInt8] = [UInt8(ascii: "\\"), UInt8(ascii: "\n"), UInt8(ascii: "\"")]
    guard text.utf8.contains(where: special.contains) else { return text }
    var escaped = ""
    // A carriage return and a newline form one character, but two scalars.
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\\": escaped += "\\\\"
      case "\n": escaped += "\\n"
      case "\"" where quotes: escaped += "\\\""
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }

  static func number(_ number: Watchdog.Metrics.Number) -> String {
    switch number {
    case .count(let count): "\(count)"
    case .time(let nanoseconds): seconds(nanoseconds)
    }
  }

  /// Converts exactly: `0.25`.
  static func seconds(_ nanoseconds: UInt64) -> String {
    let (whole, rest) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
    guard rest != 0 else { return "\(whole)" }
    var digits = Substring("\(1_000_000_000 + rest)".dropFirst())
    while digits.last == "0" { digits.removeLast() }
    return "\(whole).\(digits)"
  }
}

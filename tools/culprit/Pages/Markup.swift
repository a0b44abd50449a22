import CulpritBlame
import CulpritStallRecord

/// Creates HTML. All text from a recording must pass through ``text(_:)``.
enum Markup {
  /// Escapes `text` for HTML text or a quoted attribute value. The result contains no markup and no control characters.
  static func text(_ text: String) -> String {
    let shown = printable(text)
    guard shown.utf8.contains(where: "&<>\"'".utf8.contains) else { return shown }
    var escaped = ""
    for scalar in shown.unicodeScalars {
      switch scalar {
      case "&": escaped += "&amp;"
      case "<": escaped += "&lt;"
      case ">": escaped += "&gt;"
      case "\"": escaped += "&quot;"
      case "'": escaped += "&#39;"
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped
  }

  /// Returns an element of the class `kind`. `content` and `attributes` must be markup.
  static func element(_ name: String, _ kind: String = "", _ content: String, _ attributes: String = "") -> String {
    "<\(name)\(kind.isEmpty ? "" : " class=\"\(kind)\"")\(attributes.isEmpty ? "" : " \(attributes)")>\(content)</\(name)>"
  }

  static func time(_ time: StallReport.Timestamp) -> String { element("time", "", "\(time)", "datetime=\"\(time)\"") }

  /// Escapes `text` and keeps its line breaks.
  static func lines(_ text: String) -> String {
    text.split(separator: "\n", omittingEmptySubsequences: false).map { Self.text(String($0)) }.joined(separator: "\n")
  }
}

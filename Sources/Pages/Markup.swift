import CulpritStallRecord

/// HTML as text: whatever comes from a recording goes through ``text(_:)``.
enum Markup {
  /// `text` where HTML has text, or the value of an attribute in quotes: nothing in it is markup, or does something to who reads it.
  static func text(_ text: String) -> String {
    let shown = printable(text)
    guard shown.utf8.contains(where: { isSpecial($0) }) else { return shown }
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

  private static func isSpecial(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "&"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""), UInt8(ascii: "'"): true
    default: false
    }
  }

  /// An element `name` of the class `kind` with `content`, which is markup.
  static func element(_ name: String, _ kind: String = "", _ content: String) -> String {
    "<\(name)\(kind.isEmpty ? "" : " class=\"\(kind)\"")>\(content)</\(name)>"
  }
}

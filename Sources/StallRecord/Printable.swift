/// `text` without what would move the cursor, colour the terminal, begin a line or turn the direction of writing: names
/// come from requests, files and the environment, and must not be able to write a report of their own.
///
/// Everything that leaves for a terminal or a log goes through here once. What is harmful stands there as its number,
/// "\u{1b}"; what is printable already stays as it is. Control characters (C0, DEL and C1), the separators of lines and
/// paragraphs, and formatting characters (those that turn the direction among them) count as harmful.
///
/// - Parameters:
///   - text: The text.
///   - limit: How many characters of it are kept; what comes then is left out, and an ellipsis says so.
/// - Returns: What can be printed.
package func printable(_ text: String, limit: Int = .max) -> String {
  var kept = text
  // The end is looked for by the bytes first: counting the characters of a long text takes long.
  if text.utf8.count > limit, let end = text.index(text.startIndex, offsetBy: limit, limitedBy: text.endIndex),
    end < text.endIndex
  {
    kept = text[..<end] + "…"
  }
  // Nearly all names are of these, and it takes a table to know of others.
  guard !kept.utf8.allSatisfy({ 0x20 <= $0 && $0 < 0x7f }) else { return kept }
  guard !kept.unicodeScalars.allSatisfy(isPrintable) else { return kept }
  return kept.unicodeScalars.map { isPrintable($0) ? String($0) : "\\u{\(String($0.value, radix: 16))}" }.joined()
}

/// Whether a terminal shows `scalar`, and does nothing else with it.
package func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
  switch scalar.properties.generalCategory {
  case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: false
  default: true
  }
}

/// Returns `text` with harmful characters replaced by their numbers, as in "\u{1b}": control characters (C0, DEL and
/// C1), line and paragraph separators, and formatting characters, including those that change the writing direction.
///
/// Names come from requests, files and the environment, and must not be able to forge a report. All printed or logged
/// text must pass through this function once. An ellipsis replaces the characters after `limit`.
package func printable(_ text: String, limit: Int = .max) -> String {
  var kept = text
  if text.utf8.count > limit, let end = text.index(text.startIndex, offsetBy: limit, limitedBy: text.endIndex),
    end < text.endIndex
  {
    kept = text[..<end] + "…"
  }
  // Nearly all names are printable ASCII. Other characters require a table lookup.
  guard !kept.utf8.allSatisfy({ 0x20 <= $0 && $0 < 0x7f }) else { return kept }
  guard !kept.unicodeScalars.allSatisfy(isPrintable) else { return kept }
  return kept.unicodeScalars.map { isPrintable($0) ? String($0) : "\\u{\(String($0.value, radix: 16))}" }.joined()
}

package func isPrintable(_ scalar: Unicode.Scalar) -> Bool {
  switch scalar.properties.generalCategory {
  case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate: false
  default: true
  }
}

/// Returns `text` in at most `limit` printable characters. Shortens the middle, because both ends of a name are
/// informative. Words replace an invisible text.
package func abridged(_ text: String, limit: Int = FunctionName.charactersMax) -> String {
  // Nearly all texts are short printable ASCII.
  if text.utf8.count <= limit, text.utf8.allSatisfy({ 0x20 <= $0 && $0 < 0x7f }) { return visible(text) }
  let whole = printedPrefix(of: text, limit)
  guard !whole.isAll else { return visible(whole.text) }
  let head = (limit - 1) / 2
  let tail = printedPrefix(of: String(text.reversed()), limit - 1 - head, isReversed: true)
  return printedPrefix(of: text, head).text + "…" + tail.text
}

/// Returns the longest prefix of `text` with a printed form of at most `limit` characters, and whether it is the whole
/// text. Restores the original order of reversed text.
private func printedPrefix(of text: String, _ limit: Int, isReversed: Bool = false) -> (text: String, isAll: Bool) {
  var printed: [String] = []
  var count = 0
  for character in text {
    let piece = printable(String(character))
    count += piece.count
    guard count <= limit else { return ((isReversed ? printed.reversed() : printed).joined(), false) }
    printed.append(piece)
  }
  return ((isReversed ? printed.reversed() : printed).joined(), true)
}

/// Returns `text`, or words for an invisible nonempty text, which would seem to be missing.
package func visible(_ text: String) -> String {
  !text.isEmpty && text.unicodeScalars.allSatisfy(isBlank) ? "(a name of spaces)" : text
}

/// Whether `scalar` is invisible: white space, or an ignorable character such as U+3164.
private func isBlank(_ scalar: Unicode.Scalar) -> Bool {
  scalar.properties.isWhitespace || scalar.properties.isDefaultIgnorableCodePoint || scalar == "\u{2800}"
}

/// Returns the digits of `number`, with zeros in front of fewer than `count` digits.
package func digits(_ number: some BinaryInteger, _ count: Int, radix: Int = 10, uppercase: Bool = false) -> String {
  let digits = String(number, radix: radix, uppercase: uppercase)
  return String(repeating: "0", count: max(0, count - digits.count)) + digits
}

/// Returns `number` / 10^`decimals` as an exact decimal number without trailing zeros. A `Double` would round.
package func decimal(_ number: UInt64, _ decimals: Int) -> String {
  let digits = digits(number, decimals + 1)
  let fraction = digits.suffix(decimals)
  guard let last = fraction.lastIndex(where: { $0 != "0" }) else { return String(digits.dropLast(decimals)) }
  return digits.dropLast(decimals) + "." + fraction[...last]
}

extension String {
  /// The part behind the last slash of a path.
  package var lastComponent: String {
    guard let slash = utf8.lastIndex(of: UInt8(ascii: "/")) else { return self }
    return String(self[index(after: slash)...])
  }
}

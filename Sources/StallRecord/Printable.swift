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

/// `text` where it is told among other things: as ``printable(_:limit:)`` has it, and in at most `limit` characters. Of a longer text
/// the middle is left out, because both ends of a name tell something. A text with nothing to be seen has words in its place.
package func abridged(_ text: String, limit: Int = FunctionName.charactersMax) -> String {
  // Nearly all texts are of these.
  if text.utf8.count <= limit, text.utf8.allSatisfy({ 0x20 <= $0 && $0 < 0x7f }) { return visible(text) }
  let whole = printedPrefix(of: text, limit)
  guard !whole.isAll else { return visible(whole.text) }
  let head = (limit - 1) / 2
  let tail = printedPrefix(of: String(text.reversed()), limit - 1 - head, isReversed: true)
  return printedPrefix(of: text, head).text + "…" + tail.text
}

/// As many characters of `text` from its beginning as have room in `limit` when they are printed, and whether these are all. What is
/// printed for one character is never divided. Of a reversed text they are put in order again.
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

/// `text`, or words in its place where it has characters and none of them is to be seen: it would read as if it was missing. An empty
/// text stays empty.
package func visible(_ text: String) -> String {
  !text.isEmpty && text.unicodeScalars.allSatisfy(isBlank) ? "(a name of spaces)" : text
}

/// Whether there is nothing to be seen where `scalar` is printed: spaces, and letters that stand for nothing, such as U+3164.
private func isBlank(_ scalar: Unicode.Scalar) -> Bool {
  scalar.properties.isWhitespace || scalar.properties.isDefaultIgnorableCodePoint || scalar == "\u{2800}"
}

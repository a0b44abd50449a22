import Foundation

extension Kind {
  static let strings = [
    Kind("buildStrings", buildStrings), Kind("splitLines", splitLines), Kind("iterateCharacters", iterateCharacters),
    Kind("matchExpressions", matchExpressions), Kind("formatPrices", formatPrices),
    Kind("replaceWords", replaceWords),
  ]
}

private let sentence = "The quick brown fox jumps over the lazy dog; größer, naïve, 東京 and more of it. "

@inline(never)
private func buildStrings(until end: UInt64) {
  var length = 0
  while isBefore(end) { length &+= (0..<200).map(String.init).joined(separator: ",").count }
  keep(length)
}

@inline(never)
private func splitLines(until end: UInt64) {
  let text = (0..<40).map { "\($0),name \($0),value;" }.joined(separator: "\n")
  var count = 0
  while isBefore(end) {
    for line in text.split(separator: "\n") { count &+= line.split(separator: ",").map(String.init).count }
  }
  keep(count)
}

@inline(never)
private func iterateCharacters(until end: UInt64) {
  let text = String(repeating: sentence, count: 5)
  var count = 0
  while isBefore(end) { for character in text where character.isLetter || character.isWhitespace { count &+= 1 } }
  keep(count)
}

@inline(never)
private func matchExpressions(until end: UInt64) {
  let text = "id=4711; from=alice@example.org; to=bob@example.com; at=2026-11-22T05:00:00Z"
  var count = 0
  while isBefore(end) { count &+= text.matches(of: /([a-z]+)@([a-z.]+)/).count }
  keep(count)
}

@inline(never)
private func formatPrices(until end: UInt64) {
  var length = 0
  var price = 0.0
  while isBefore(end) {
    price += 0.37
    length &+= String(format: "%8.2f EUR, %d pieces", price, 12).utf8.count
  }
  keep(length)
}

@inline(never)
private func replaceWords(until end: UInt64) {
  var length = 0
  while isBefore(end) {
    let text = sentence.replacingOccurrences(of: "fox", with: "cat").lowercased()
    length &+= text.contains("lazy") ? text.utf8.count : 0
  }
  keep(length)
}

/// What is added to the sentence about a word that is none of `known`: "; did you mean --width?", or nothing where none is near.
///
/// - Parameters:
///   - word: What was written.
///   - known: What could have been meant.
///   - prefix: What is put before the suggestion.
/// - Returns: The rest of the sentence.
package func suggestion(_ word: String, among known: [String], prefix: String = "") -> String {
  let wanted = Array(word.lowercased())
  // A third of the letters may be wrong. What is shorter is near to everything.
  let near = known.map { (name: $0, distance: editDistance(wanted, Array($0.lowercased()))) }
    .filter { $0.distance <= max(1, min(wanted.count, $0.name.count) / 3) && min(wanted.count, $0.name.count) > 1 }
    .min { $0.distance < $1.distance }
  // Nobody writes more than a long beginning of a name without having meant it.
  let begun = known.first { wanted.count > 2 && $0.lowercased().hasPrefix(word.lowercased()) }
  return (near?.name ?? begun).map { "; did you mean \(prefix)\($0)?" } ?? ""
}

/// "a, b or c".
func alternatives(_ words: [String]) -> String {
  guard let last = words.last, words.count > 1 else { return words.first ?? "" }
  return words.dropLast().joined(separator: ", ") + " or " + last
}

/// How many letters have to be put in, taken out, replaced, or exchanged with the next one, to make `second` of `first` (optimal string
/// alignment).
private func editDistance(_ first: [Character], _ second: [Character]) -> Int {
  var before: [Int] = []
  var last: [Int] = []
  var row = Array(0...second.count)
  for i in first.indices {
    (before, last) = (last, row)
    row = [i + 1]
    for j in second.indices {
      var cost = min(last[j] + (first[i] == second[j] ? 0 : 1), last[j + 1] + 1, row[j] + 1)
      if i > 0, j > 0, first[i] == second[j - 1], first[i - 1] == second[j] { cost = min(cost, before[j - 1] + 1) }
      row.append(cost)
    }
  }
  return row[second.count]
}

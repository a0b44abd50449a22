import CulpritStallRecord

/// Returns the end of an error message about an unknown word, as in "; did you mean --width?"; empty if no known word
/// is similar.
package func suggestion(_ word: String, among known: [String], prefix: String = "") -> String {
  let wanted = Array(word.lowercased())
  // A third of the letters can differ. Single letters are similar to every word.
  let near = known.map { (name: $0, distance: editDistance(wanted, Array($0.lowercased()))) }
    .filter { $0.distance <= max(1, min(wanted.count, $0.name.count) / 3) && min(wanted.count, $0.name.count) > 1 }
    .min { $0.distance < $1.distance }
  // Words are often prefixes by accident, so a prefix needs at least three letters.
  let begun = known.first { wanted.count > 2 && $0.lowercased().hasPrefix(word.lowercased()) }
  return (near?.name ?? begun).map { "; did you mean \(prefix)\($0)?" } ?? ""
}

func alternatives(_ words: [String]) -> String {
  guard let last = words.last, words.count > 1 else { return words.first ?? "" }
  return words.dropLast().joined(separator: ", ") + " or " + last
}

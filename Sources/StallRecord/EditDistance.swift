/// Returns the optimal string alignment distance: the number of insertions, deletions, replacements and transpositions
/// of adjacent letters that turn `first` into `second`.
package func editDistance<Letter: Equatable>(_ first: [Letter], _ second: [Letter]) -> Int {
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

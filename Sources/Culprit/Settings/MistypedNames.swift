/// Variables that look like settings and are none: an operator who mistypes a name must not believe that it has an effect.
extension Environment {
  /// Longer names are not compared: their length alone tells that they are no slip, and comparing takes its square in time.
  private static let longest = 300

  /// A sentence for each variable behind `CULPRIT_` that is no setting.
  var unknownNames: [String] {
    let known = Self.knownVariables
    return names.filter { !known.contains($0) && !Self.isServiceLink($0) }.sorted().map { name in
      let all = "there is no setting \(quoted(name)); there are \(known.joined(separator: ", "))"
      guard name.utf8.count <= Self.longest else { return all }
      // A name that is cut off is near, however short it is.
      let distances = known.map { $0.hasPrefix(name) ? 1 : Self.distance(Array(name.utf8), Array($0.utf8)) }
      let least = distances.min() ?? .max
      // A third of what follows the prefix: what has less in common is no slip of the finger.
      guard let index = distances.firstIndex(of: least), least <= max(2, (name.utf8.count - Self.prefix.utf8.count) / 3)
      else { return all }
      return "there is no setting \(quoted(name)); the nearest is \(known[index])"
    }
  }

  /// Whether Kubernetes puts such a variable into every container, for a service of its own that is called culprit or
  /// culprit-something: `CULPRIT_SERVICE_HOST`, `CULPRIT_DB_PORT_5432_TCP_ADDR`.
  ///
  /// Not inlined: the type of a regular expression takes 0.2 MiB of memory wherever it is made, and few services have such
  /// variables.
  @inline(never) private static func isServiceLink(_ name: String) -> Bool {
    name.utf8.count <= longest
      && name.wholeMatch(of: /CULPRIT_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\w+)?)/) != nil
  }

  /// How many slips lead from one name to the other: a letter too many, one too few, another one, or two that changed places.
  private static func distance(_ one: [UInt8], _ other: [UInt8]) -> Int {
    // The rows of the table for the last two letters of `one`, and the one that is being made.
    var before: [Int] = []
    var row = Array(0...other.count)
    for i in one.indices {
      var next = [i + 1]
      for j in other.indices {
        var least = min(row[j + 1] + 1, next[j] + 1, row[j] + (one[i] == other[j] ? 0 : 1))
        if i > 0, j > 0, one[i] == other[j - 1], one[i - 1] == other[j] { least = min(least, before[j - 1] + 1) }
        next.append(least)
      }
      (before, row) = (row, next)
    }
    return row[other.count]
  }
}

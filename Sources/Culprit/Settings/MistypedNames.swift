import CulpritStallRecord

/// Detection of mistyped variables, which have no effect.
extension Environment {
  /// Limits the comparison, which takes quadratic time.
  private static let longest = 300

  /// Returns one sentence for each unknown variable with Culprit's prefix.
  var unknownNames: [String] {
    let known = Self.knownVariables
    return names.filter { !known.contains($0) && !Self.isServiceLink($0) }.sorted().map { name in
      let all = "unknown setting \(quoted(name)); available: \(known.joined(separator: ", "))"
      guard name.utf8.count <= Self.longest else { return all }
      // A truncated name always counts as close.
      let distances = known.map { $0.hasPrefix(name) ? 1 : editDistance(Array(name.utf8), Array($0.utf8)) }
      let least = distances.min() ?? .max
      guard let index = distances.firstIndex(of: least), least <= max(2, (name.utf8.count - Self.prefix.utf8.count) / 3)
      else { return all }
      return "unknown setting \(quoted(name)); did you mean \(known[index])?"
    }
  }

  /// Whether Kubernetes sets the variable for a service named culprit or culprit-something. Not inlined: the type of a
  /// regular expression takes 0.2 MiB of memory at each use.
  @inline(never) private static func isServiceLink(_ name: String) -> Bool {
    name.utf8.count <= longest
      && name.wholeMatch(of: /CULPRIT_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\w+)?)/) != nil
  }
}

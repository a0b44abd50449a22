import CulpritStallRecord

/// Detection of unknown variables with Culprit's prefix. A mistyped name must be reported, because it has no effect.
extension Environment {
  /// The longest name that is compared. Longer names cannot be typing errors, and the comparison takes quadratic time.
  private static let longest = 300

  /// Returns one sentence for each variable with the prefix `CULPRIT_` that is not a setting.
  var unknownNames: [String] {
    let known = Self.knownVariables
    return names.filter { !known.contains($0) && !Self.isServiceLink($0) }.sorted().map { name in
      let all = "unknown setting \(quoted(name)); available: \(known.joined(separator: ", "))"
      guard name.utf8.count <= Self.longest else { return all }
      // A truncated name counts as close, however short it is.
      let distances = known.map { $0.hasPrefix(name) ? 1 : editDistance(Array(name.utf8), Array($0.utf8)) }
      let least = distances.min() ?? .max
      // At most a third of the characters after the prefix can differ.
      guard let index = distances.firstIndex(of: least), least <= max(2, (name.utf8.count - Self.prefix.utf8.count) / 3)
      else { return all }
      return "unknown setting \(quoted(name)); did you mean \(known[index])?"
    }
  }

  /// Returns whether Kubernetes sets the variable in every container for a service named culprit or culprit-something:
  /// `CULPRIT_SERVICE_HOST`, `CULPRIT_DB_PORT_5432_TCP_ADDR`.
  ///
  /// Not inlined: the type of a regular expression takes 0.2 MiB of memory at each place of use, and few services have
  /// such variables.
  @inline(never) private static func isServiceLink(_ name: String) -> Bool {
    name.utf8.count <= longest
      && name.wholeMatch(of: /CULPRIT_(?:\w+_)?(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\w+)?)/) != nil
  }
}

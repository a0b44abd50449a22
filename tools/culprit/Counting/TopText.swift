import CulpritReports
import CulpritStallRecord

extension StallGroups {
  /// Returns the groups as a table of complete lines. `details` adds hosts, versions and labels below each group.
  package func text(
    limit: Int = .max,
    details: Bool = false,
    style: StallReport.TextStyle = StallReport.TextStyle(width: .max)
  ) -> String {
    guard let span else { return "no stalls\n" }
    let shown = groups.prefix(limit)
    var table = Table(columns, style)
    for group in shown { table.add(cells(of: group)) }
    var lines =
      style.lines(
        "\(counted(count, "stall")) of \(counted(groups.count, groupNoun)), \(readable(total)), "
          + "from \(span.lowerBound) to \(span.upperBound)"
      ) + [""]
    let body = table.lines
    lines += body[0]
    for (row, group) in zip(body.dropFirst(), shown) {
      lines += row
      guard details else { continue }
      lines += Self.details(of: group).flatMap { style.lines($0) }.map { Emphasis.weak.on($0, style) }
    }
    if shown.count < groups.count { lines += style.lines("… and \(groups.count - shown.count) more") }
    return lines.joined(separator: "\n") + "\n"
  }

  private var groupNoun: String { grouping == .culprit ? "kind" : grouping.rawValue }

  private var columns: [(head: String, alignment: Table.Alignment)] {
    let counts: [(head: String, alignment: Table.Alignment)] = [
      ("COUNT", .right), ("TOTAL", .right), ("WORST", .right), ("LAST SEEN", .left),
    ]
    switch grouping {
    case .culprit: return counts + [("CAUSE", .left), ("SIGNATURE", .left), ("CULPRIT", .left), ("SOURCE", .left)]
    default:
      return counts + [(grouping.rawValue.uppercased(), .left), ("CULPRIT OF THE WORST", .left)]
    }
  }

  private func cells(of group: StallGroup) -> [String] {
    let counts = ["\(group.count)", readable(group.total), readable(group.worst.duration), "\(group.lastSeen)"]
    guard grouping == .culprit else {
      return counts + [abridged(group.key), Self.culprit(of: group.worst)]
    }
    let others = group.sources.all.count - 1
    let source = abridged(group.sources.first ?? "") + (others > 0 ? " and \(others) more" : "")
    return counts + [group.causes.first ?? "unknown", group.key, Self.culprit(of: group.newest), source]
  }

  private static func culprit(of stall: CountedStall) -> String {
    shortened(stall.culprit) + (stall.place.map { " (\($0))" } ?? "")
  }

  private static func details(of group: StallGroup) -> [String] {
    func list(_ name: String, _ tally: Tally) -> String? {
      let all = tally.all
      guard !all.isEmpty else { return nil }
      let more = all.count > 5 ? ", … (\(all.count))" : ""
      return "\(name) " + all.prefix(5).map { "\(printable($0.name, limit: 60)) (\($0.count))" }.joined(separator: ", ")
        + more
    }
    let facts = [
      "first seen \(group.firstSeen)", list("hosts", group.hosts), list("versions", group.versions),
      list("causes", group.causes), list("labels", group.labels),
    ]
    return facts.compactMap { $0 }.map { "         \($0)" }
  }
}

extension StallGroups {
  /// docs/internals/many-stalls.md describes the format.
  package func json(limit: Int = .max) -> JSONObject {
    var object = JSONObject()
    object.add("version", 1)
    object.add("by", grouping.rawValue)
    object.add("count", count)
    object.add("totalSeconds", total)
    object.add("firstSeen", span?.lowerBound.exact)
    object.add("lastSeen", span?.upperBound.exact)
    object.add("groupCount", groups.count)
    object.add("groups", groups.prefix(limit).map(\.json))
    return object
  }
}

extension StallGroup {
  var json: JSONObject {
    func list(_ tally: Tally) -> [JSONObject] {
      tally.all.map { name, count in
        var object = JSONObject()
        object.add("name", name)
        object.add("count", count)
        return object
      }
    }
    var object = JSONObject()
    object.add("key", key)
    object.add("count", count)
    object.add("totalSeconds", total)
    object.add("worstSeconds", worst.duration)
    object.add("worstID", worst.id)
    object.add("firstSeen", firstSeen.exact)
    object.add("lastSeen", lastSeen.exact)
    object.add("verdict", newest.verdict.rawValue)
    object.add("function", newest.function?.name)
    object.add("module", newest.function?.module)
    object.add("file", newest.function?.location?.file)
    object.add("line", newest.function?.location?.line)
    object.add("causes", list(causes))
    object.add("sources", list(sources))
    object.add("hosts", list(hosts))
    object.add("versions", list(versions))
    object.add("labels", list(labels))
    return object
  }
}

extension StallReport.Timestamp {
  /// The time in RFC 3339 format with nanoseconds.
  var exact: String { WallTime(nanosecondsSince1970: nanosecondsSince1970).text(decimals: 9) }
}

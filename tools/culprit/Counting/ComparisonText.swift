import CulpritReports
import CulpritStallRecord

extension StallComparison {
  /// Returns the comparison as a table of complete lines with at most `limit` problems.
  package func text(
    limit: Int = .max,
    style: StallReport.TextStyle = StallReport.TextStyle(width: .max)
  ) -> String {
    let columns: [(head: String, alignment: Table.Alignment)] = [
      ("CHANGE", .left), ("TOTAL", .right), ("COUNT", .right), ("WORST", .right), ("SIGNATURE", .left),
      ("CULPRIT", .left), ("SOURCE", .left),
    ]
    var table = Table(columns, style)
    // The largest changes are at both ends of the list.
    let ranked = entries.enumerated().sorted {
      (max($1.element.difference, .zero - $1.element.difference), $0.offset)
        < (max($0.element.difference, .zero - $0.element.difference), $1.offset)
    }
    let shown = Set(ranked.prefix(limit).map(\.offset))
    for entry in entries.enumerated() where shown.contains(entry.offset) { table.add(cells(of: entry.element)) }
    var lines = style.lines("before: \(Self.head(before))") + style.lines("after:  \(Self.head(after))")
    if !entries.isEmpty { lines += (remark.map { style.lines($0) } ?? []) + [""] + table.lines.joined() }
    if shown.count < entries.count { lines += style.lines("… and \(entries.count - shown.count) that changed less") }
    return lines.joined(separator: "\n") + "\n"
  }

  /// The reason why totals are not compared per hour.
  private var remark: String? {
    guard !isPerHour else { return nil }
    let unknown = [("before", before), ("after", after)].filter { ($0.1.watched ?? .zero) == .zero }.map(\.0)
    return "totals as they are, not by the hour: for how long services were watched is not known of "
      + unknown.joined(separator: " and ")
  }

  private static func head(_ side: Side) -> String {
    let groups = side.groups
    let kinds = counted(groups.groups.count, "kind")
    return "\(counted(groups.count, "stall")) of \(kinds), \(readable(groups.total))"
      + (side.watched.map { ", in \(readable($0)) of watching" } ?? "")
  }

  private func cells(of entry: Entry) -> [String] {
    func pair(_ value: (StallGroup) -> String) -> String {
      "\(entry.before.map(value) ?? "-") → \(entry.after.map(value) ?? "-")"
    }
    let size = max(entry.difference, .zero - entry.difference)
    let sign = entry.difference < .zero ? "−" : "+"
    let newest = entry.newest
    return [
      entry.change.rawValue,
      entry.difference == .zero ? "0" : sign + readable(size) + (isPerHour ? " an hour" : ""),
      pair { "\($0.count)" },
      pair { readable($0.worst.duration) },
      entry.signature,
      newest.map { shortened($0.culprit) + ($0.place.map { " (\($0))" } ?? "") } ?? "",
      abridged(newest?.sourceText ?? ""),
    ]
  }

  /// docs/internals/many-stalls.md describes the format.
  package func json(limit: Int = .max) -> JSONObject {
    func json(_ side: Side) -> JSONObject {
      var object = JSONObject()
      object.add("count", side.groups.count)
      object.add("totalSeconds", side.groups.total)
      object.add("watchedSeconds", side.watched)
      return object
    }
    var object = JSONObject()
    object.add("version", 1)
    object.add("isPerHour", isPerHour)
    object.add("before", json(before))
    object.add("after", json(after))
    object.add(
      "entries",
      entries.prefix(limit).map { entry in
        var object = JSONObject()
        object.add("signature", entry.signature)
        object.add("change", entry.change.rawValue)
        object.add("differenceSeconds", entry.difference)
        object.add("before", entry.before?.json)
        object.add("after", entry.after?.json)
        return object
      }
    )
    return object
  }
}

import CulpritReports
import CulpritStallRecord

/// A stall as rows for an analytics engine: one row for the stall, and one row for each sampled stack.
///
/// docs/internals/many-stalls.md describes the columns.
package struct StallRows: Sendable {
  package static let version = 1

  /// UTC, as in `2026-11-23`.
  package let day: String
  /// "unknown" if the recording does not contain it.
  package let host: String
  /// Unique on its host.
  package let id: String
  private let stall: CountedStall
  private let stacks: [SampledStack]

  package init(_ stall: CountedStall, _ stacks: [SampledStack]) {
    self.stall = stall
    self.stacks = stacks
    id = stall.id
    host = stall.host.isEmpty ? StallSelection.unknown : stall.host
    day = String(stall.began.exact.prefix(10))
  }

  /// Rows for a partitioned path omit day and host, because engines read them from the path.
  package func lines(isPartitioned: Bool) -> String {
    ([stallRow(isPartitioned)] + stacks.map { row(of: $0, isPartitioned) }).map { $0.text + "\n" }.joined()
  }

  private func beginning(_ kind: String, _ isPartitioned: Bool) -> JSONObject {
    var row = JSONObject()
    row.add("row", kind)
    row.add("version", Self.version)
    if !isPartitioned {
      row.add("day", day)
      row.add("host", host)
    }
    row.add("stall", id)
    row.add("signature", stall.signature)
    row.add("service", stall.service)
    return row
  }

  private func stallRow(_ isPartitioned: Bool) -> JSONObject {
    var row = beginning("stall", isPartitioned)
    row.add("build", stall.version)
    row.add("process", stall.processID.map(Int.init))
    row.add("source_kind", stall.source.kind.rawValue)
    row.add("source", stall.source.name)
    row.add("began", stall.began.exact)
    row.add("seconds", stall.duration)
    row.add("threshold_seconds", stall.threshold)
    row.add("is_lower_bound", stall.isLowerBound)
    row.add("has_ended", stall.hasEnded)
    row.add("is_hang", stall.isHang)
    row.add("verdict", stall.verdict.rawValue)
    row.add("function", stall.function?.name)
    row.add("module", stall.function?.module)
    row.add("file", stall.function?.location?.file)
    row.add("line", stall.function?.location?.line)
    row.add("share", stall.share)
    row.add("cause", stall.causeKind)
    row.add("cause_share", stall.cause?.share)
    row.add("cause_subject", stall.cause?.subjects.first?.text)
    row.add("cause_subject_share", stall.cause?.subjects.first?.share)
    row.add("labels", stall.labels)
    // The number of analyzed samples, which can be a selection.
    row.add("count", stacks.reduce(0) { $0 + ($1.functions.isEmpty ? 0 : $1.count) })
    return row
  }

  private func row(of stack: SampledStack, _ isPartitioned: Bool) -> JSONObject {
    var row = beginning("samples", isPartitioned)
    row.add("seconds", stack.time)
    row.add("count", stack.count)
    row.add("state", stack.activity.kind.rawValue)
    row.add("system_call", stack.activity.systemCall)
    row.add("stack", stack.functions)
    return row
  }

  /// For Hive, Spark and DuckDB, as in `day=2026-11-23/host=web-1`.
  package var partition: String { "day=\(day)/host=\(Self.escaped(host))" }

  /// Returns equal names for equal sets of stalls.
  package static func fileName(of ids: [String]) -> String { Signature.hash(ids.sorted()) }

  /// Escapes all bytes except ASCII letters, digits, "-", "_" and ".".
  private static func escaped(_ text: String) -> String {
    text.utf8.prefix(200)
      .map { byte -> String in
        let scalar = Unicode.Scalar(byte)
        let character = Character(scalar)
        let isPlain = character.isLetter || character.isNumber || "-_.".contains(character)
        guard !isPlain || !scalar.isASCII else { return String(scalar) }
        return "%" + digits(byte, 2, radix: 16, uppercase: true)
      }
      .joined()
  }
}

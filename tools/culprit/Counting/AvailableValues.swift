import CulpritReports
import CulpritStallRecord

/// Values present in the files, listed in the error when a filter matches nothing.
package struct AvailableValues: Hashable, Sendable {
  private static let namesMax = 5

  package private(set) var count = 0
  private var sources = Tally()
  private var kinds = Tally()
  private var services = Tally()
  private var hosts = Tally()
  private var builds = Tally()
  /// Labels of the stalls that only `--label` or `--signature` excludes.
  private var labels = Tally()
  /// Signatures of the stalls that only `--signature` excludes, because computing all signatures might take long.
  private var signatures = Tally()
  private var span: ClosedRange<WallTime>?

  package init() {}

  package mutating func add(_ stall: Stall, from origin: StallOrigin) {
    let source = StallReport.Source(stall.source)
    count += 1
    sources.add(source.name)
    kinds.add(source.kind.rawValue)
    services.add(origin.service)
    hosts.add(origin.host)
    builds.add(origin.build)
    widen(stall.began...stall.began)
  }

  /// Adds the labels of a stall that matches all options other than labels and signatures.
  package mutating func add(labels present: Set<String>) { for label in present { labels.add(label) } }

  /// Adds the signature of a stall that matches all options other than signatures.
  package mutating func add(signature: String) { signatures.add(signature) }

  package mutating func add(_ other: AvailableValues) {
    count += other.count
    sources.add(other.sources)
    kinds.add(other.kinds)
    services.add(other.services)
    hosts.add(other.hosts)
    builds.add(other.builds)
    labels.add(other.labels)
    signatures.add(other.signatures)
    if let span = other.span { widen(span) }
  }

  private mutating func widen(_ other: ClosedRange<WallTime>) {
    span = span.map { min($0.lowerBound, other.lowerBound)...max($0.upperBound, other.upperBound) } ?? other
  }

  /// Lists the values present for each option in use.
  package func refusal(of selection: StallSelection) -> String {
    var parts = [
      count == 1 ? "the options exclude the only stall" : "the options exclude all \(count) stalls"
    ]
    if !selection.sources.isEmpty {
      parts += [Self.list("source", sources), Self.list("kind", kinds)].compactMap { $0 }
    }
    if !selection.services.isEmpty { parts += [Self.list("service", services)].compactMap { $0 } }
    if !selection.hosts.isEmpty { parts += [Self.list("host", hosts)].compactMap { $0 } }
    if !selection.builds.isEmpty { parts += [Self.list("build", builds)].compactMap { $0 } }
    if !selection.labels.isEmpty { parts += [Self.list("label", labels)].compactMap { $0 } }
    if !selection.signatures.isEmpty { parts += [Self.list("signature", signatures)].compactMap { $0 } }
    if selection.since != nil || selection.until != nil, let span {
      parts.append(
        count == 1 ? "it began at \(span.lowerBound)" : "they began from \(span.lowerBound) to \(span.upperBound)"
      )
    }
    return parts.joined(separator: "; ")
  }

  /// Returns the most frequent values, as in `hosts "web-1", "web-2"`.
  private static func list(_ noun: String, _ tally: Tally) -> String? {
    let all = tally.all
    guard !all.isEmpty else { return nil }
    let names = all.prefix(namesMax).map { "\"\(printable($0.name, limit: 60))\"" }.joined(separator: ", ")
    return "\(noun)\(all.count == 1 ? "" : "s") \(names)" + (all.count > namesMax ? ", … (\(all.count))" : "")
  }
}

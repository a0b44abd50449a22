import CulpritReports
import CulpritStallRecord

/// What there was to choose from, for those whose options chose nothing of it.
package struct StallOffer: Hashable, Sendable {
  /// So many names are told of each option.
  private static let namesMax = 5

  /// How many stalls there were.
  package private(set) var count = 0
  private var sources = Tally()
  private var kinds = Tally()
  private var services = Tally()
  private var hosts = Tally()
  private var builds = Tally()
  /// Of those stalls that only `--label` and `--signature` pass over.
  private var labels = Tally()
  /// Of those stalls that only `--signature` passes over: to work out those of all may take long.
  private var signatures = Tally()
  private var span: ClosedRange<WallTime>?

  /// Nothing.
  package init() {}

  /// Counts `stall`, which is from `origin`.
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

  /// Counts what the application had said of a stall that the options choose which need no samples.
  package mutating func add(labels present: Set<String>) { for label in present { labels.add(label) } }

  /// Counts the signature of a stall that all other options choose.
  package mutating func add(signature: String?) { signatures.add(signature ?? "") }

  /// Counts what `other` has counted.
  package mutating func add(_ other: StallOffer) {
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

  /// The sentence for a `selection` that chose none: how many stalls there were, and what would have chosen some, by each option that
  /// was used.
  package func refusal(of selection: StallSelection) -> String {
    var parts = [
      count == 1 ? "the options do not choose the only stall" : "the options choose none of the \(count) stalls"
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

  /// `hosts "web-1", "web-2"`, those first that most stalls have; `nil` where there is none.
  private static func list(_ noun: String, _ tally: Tally) -> String? {
    let all = tally.all
    guard !all.isEmpty else { return nil }
    let names = all.prefix(namesMax).map { "\"\(printable($0.name, limit: 60))\"" }.joined(separator: ", ")
    return "\(noun)\(all.count == 1 ? "" : "s") \(names)" + (all.count > namesMax ? ", … (\(all.count))" : "")
  }
}

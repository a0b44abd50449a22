import CulpritReports
import CulpritStallRecord

/// A selection of stalls. Empty lists select all stalls.
package struct StallSelection: Hashable, Sendable {
  /// Selects stalls that began at this time or later.
  package var since: WallTime?
  /// Selects stalls that began before this time.
  package var until: WallTime?
  /// Names or kinds of sources, such as `loop`.
  package var sources: [String] = []
  package var hosts: [String] = []
  package var services: [String] = []
  /// Selects executables by prefixes of their build IDs, or by ``unknown``.
  package var builds: [String] = []
  /// Selects stalls that had one of these labels.
  package var labels: [String] = []
  /// Selects signatures that start with one of these prefixes.
  package var signatures: [String] = []

  /// The placeholder for unknown names, also in selections.
  package static let unknown = "unknown"

  package init() {}

  /// Whether the selection includes `stall` by time, source, host, service and build. Ignores labels and signatures.
  package func includes(_ stall: Stall, from origin: StallOrigin) -> Bool {
    if let since, stall.began < since { return false }
    if let until, stall.began >= until { return false }
    let source = StallReport.Source(stall.source)
    return (sources.isEmpty || sources.contains(source.name) || sources.contains(source.kind.rawValue))
      && (hosts.isEmpty || hosts.contains(origin.host)) && (services.isEmpty || services.contains(origin.service))
      && (builds.isEmpty || builds.contains { origin.build.hasPrefix($0) })
  }

  package func includes(labels present: Set<String>) -> Bool { labels.isEmpty || !present.isDisjoint(with: labels) }

  package func includes(signature: String) -> Bool {
    signatures.isEmpty || signatures.contains(where: signature.hasPrefix)
  }

  /// Returns the selected part of the time from `begin` to `end`.
  package func watched(from begin: WallTime, to end: WallTime) -> Duration {
    let first = max(begin, since ?? begin)
    let last = min(end, until ?? end)
    guard first < last else { return .zero }
    return Duration(wholeNanoseconds: last.nanosecondsSince1970 - first.nanosecondsSince1970)
  }
}

extension WallTime {
  /// Parses a time in RFC 3339 format (`2026-11-20T10:23:51Z`, `2026-11-20T12:23:51+02:00`), a UTC day (`2026-11-20`),
  /// or an age at the time `now` (`90s`, `30m`, `2h`, `7d`, `2w`). Returns `nil` for other text.
  ///
  /// Times outside the representable range become its first or last time.
  package init?(argument text: String, now: WallTime) {
    if let match = text.wholeMatch(of: /(\d{1,9})([smhdw])/), let number = UInt64(match.1) {
      let seconds: [Substring: UInt64] = ["s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800]
      self = now.moved(by: number * (seconds[match.2] ?? 1), isBack: true)
    } else if let match = text.wholeMatch(of: /(.+)([+-])(\d{2}):(\d{2})/), text.contains("T"),
      let local = WallTime(inAnyYear: match.1 + "Z"), let hours = UInt64(match.3), let minutes = UInt64(match.4),
      hours < 24, minutes < 60
    {
      self = local.moved(by: (hours * 60 + minutes) * 60, isBack: match.2 == "+")
    } else {
      self.init(inAnyYear: text.contains("T") ? text : text + "T00:00:00Z")
    }
  }

  /// Parses RFC 3339 text with any four-digit year.
  private init?(inAnyYear text: String) {
    if let time = WallTime(text: text) {
      self = time
      return
    }
    // The calendar repeats every 400 years, so the date is validated in an equivalent, representable year.
    guard let match = text.wholeMatch(of: /(\d{4})(-.+)/), let year = Int(match.1),
      WallTime(text: "\(2000 + year % 400)\(match.2)") != nil
    else { return nil }
    self.init(nanosecondsSince1970: year < 1970 ? 0 : .max)
  }

  /// Returns the time moved by `seconds`, limited to the representable range.
  private func moved(by seconds: UInt64, isBack: Bool) -> WallTime {
    let (product, isFar) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    let distance = isFar ? .max : product
    let time = nanosecondsSince1970
    return WallTime(nanosecondsSince1970: isBack ? time.saturatingDifference(distance) : time.saturatingSum(distance))
  }
}

import CulpritReports
import CulpritStallRecord

/// Which stalls are wanted.
package struct StallSelection: Hashable, Sendable {
  /// Those that began then or later.
  package var since: WallTime?
  /// Those that began before.
  package var until: WallTime?
  /// Those of the sources with one of these names, or of one of these kinds (`loop`); of all where there is none.
  package var sources: [String] = []
  /// Those of one of these hosts, or of none that is known (``unknown``); of all where there is none.
  package var hosts: [String] = []
  /// Those of one of these executables, or of none that is known (``unknown``); of all where there is none.
  package var services: [String] = []
  /// Those of executables whose build-id begins with one of these, or of none that is known (``unknown``); of all where there is
  /// none.
  package var builds: [String] = []
  /// Those of which the application had said one of these at some time; all where there is none.
  package var labels: [String] = []
  /// Those whose signature begins with one of these; all where there is none.
  package var signatures: [String] = []

  /// What is told in the place of a name that is not known, and chooses what has none.
  package static let unknown = "unknown"

  /// All stalls.
  package init() {}

  /// Whether `stall`, which is from `origin`, is wanted as far as that can be told without its samples and its culprit.
  package func includes(_ stall: Stall, from origin: StallOrigin) -> Bool {
    if let since, stall.began < since { return false }
    if let until, stall.began >= until { return false }
    let source = StallReport.Source(stall.source)
    return (sources.isEmpty || sources.contains(source.name) || sources.contains(source.kind.rawValue))
      && (hosts.isEmpty || hosts.contains(origin.host)) && (services.isEmpty || services.contains(origin.service))
      && (builds.isEmpty || builds.contains { origin.build.hasPrefix($0) })
  }

  /// Whether a stall is wanted of which the application had said these `labels`.
  package func includes(labels present: Set<String>) -> Bool { labels.isEmpty || !present.isDisjoint(with: labels) }

  /// Whether stalls with `signature` are wanted.
  package func includes(signature: String?) -> Bool {
    signatures.isEmpty || signatures.contains { signature?.hasPrefix($0) ?? false }
  }

  /// How much of the time from `begin` to `end` is in the wanted one.
  package func watched(from begin: WallTime, to end: WallTime) -> Duration {
    let first = max(begin, since ?? begin)
    let last = min(end, until ?? end)
    guard first < last else { return .zero }
    return Duration(wholeNanoseconds: last.nanosecondsSince1970 - first.nanosecondsSince1970)
  }
}

extension WallTime {
  /// The time that `text` says: as RFC 3339 has it (`2026-11-20T10:23:51Z`, `2026-11-20T12:23:51+02:00`), a day in UTC
  /// (`2026-11-20`), or so long before `now` (`90s`, `30m`, `2h`, `7d`, `2w`). `nil` when it is none of these.
  ///
  /// What is before or after all times that a recording can have is the first or the last of them.
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

  /// The time that `text` says, as ``init(text:)`` reads it, but in any year of four digits.
  private init?(inAnyYear text: String) {
    if let time = WallTime(text: text) {
      self = time
      return
    }
    // The calendar is the same every 400 years: whether there is such a day is seen in a year that is in range.
    guard let match = text.wholeMatch(of: /(\d{4})(-.+)/), let year = Int(match.1),
      WallTime(text: "\(2000 + year % 400)\(match.2)") != nil
    else { return nil }
    self.init(nanosecondsSince1970: year < 1970 ? 0 : .max)
  }

  /// The time so many `seconds` later or earlier, as far as there is one.
  private func moved(by seconds: UInt64, isBack: Bool) -> WallTime {
    let (distance, isFar) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    let (moved, isOut) =
      isBack
      ? nanosecondsSince1970.subtractingReportingOverflow(distance)
      : nanosecondsSince1970.addingReportingOverflow(distance)
    return WallTime(nanosecondsSince1970: isFar || isOut ? (isBack ? 0 : .max) : moved)
  }
}

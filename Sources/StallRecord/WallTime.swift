/// A UTC wall-clock time for display. The clock can jump, so it must not be used to compute durations.
package struct WallTime: Hashable, Comparable, Sendable, CustomStringConvertible {
  package var nanosecondsSince1970: UInt64

  package init(nanosecondsSince1970: UInt64) { self.nanosecondsSince1970 = nanosecondsSince1970 }

  package static func < (left: WallTime, right: WallTime) -> Bool {
    left.nanosecondsSince1970 < right.nanosecondsSince1970
  }

  /// The time in ISO 8601 format with milliseconds, as in `2026-11-20T10:23:51.204Z`.
  package var description: String { text(decimals: 3) }

  package func text(decimals: Int) -> String {
    let seconds = nanosecondsSince1970 / 1_000_000_000
    let (year, month, day) = Self.civil(daysSince1970: seconds / 86_400)
    let ofDay = seconds % 86_400
    let fraction = digits(nanosecondsSince1970 % 1_000_000_000, 9).prefix(decimals)
    return "\(digits(year, 4))-\(digits(month, 2))-\(digits(day, 2))"
      + "T\(digits(ofDay / 3_600, 2)):\(digits(ofDay / 60 % 60, 2)):\(digits(ofDay % 60, 2))"
      + ".\(fraction)Z"
  }

  /// Parses a UTC time in RFC 3339 format, with or without a fraction: `2026-11-20T10:23:51.204Z`. Returns `nil` for a
  /// wrong format or a year out of range (1970 to 2553).
  package init?(text: String) {
    guard
      let match = text.wholeMatch(
        of: /(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?Z/
      ),
      let year = UInt64(match.1), let month = UInt64(match.2), let day = UInt64(match.3),
      let hour = UInt64(match.4), let minute = UInt64(match.5), let second = UInt64(match.6),
      (1970...2553).contains(year), (1...12).contains(month), day >= 1, hour < 24, minute < 60, second < 60
    else { return nil }
    // Years start in March, so the leap day is the last day.
    let shifted = month > 2 ? year : year - 1
    let ofYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
    let ofEra = shifted % 400
    let days = shifted / 400 * 146_097 + ofEra * 365 + ofEra / 4 - ofEra / 100 + ofYear - 719_468
    guard Self.civil(daysSince1970: days) == (year, month, day) else { return nil }
    let fraction = match.7.map { $0 + String(repeating: "0", count: 9 - $0.count) } ?? "0"
    nanosecondsSince1970 =
      (days * 86_400 + hour * 3_600 + minute * 60 + second) * 1_000_000_000 + (UInt64(fraction) ?? 0)
  }

  /// Returns the Gregorian date `days` after 1970-01-01.
  private static func civil(daysSince1970 days: UInt64) -> (year: UInt64, month: UInt64, day: UInt64) {
    let shifted = days + 719_468  // days from 0000-03-01 to 1970-01-01
    let era = shifted / 146_097
    let dayOfEra = shifted % 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let marchMonth = (5 * dayOfYear + 2) / 153
    let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * marchMonth + 2) / 5 + 1)
  }
}

extension FixedWidthInteger {
  /// Returns the sum of this number and `other`, limited to the range of the type.
  package func saturatingSum(_ other: Self) -> Self {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? (other < 0 ? .min : .max) : sum
  }

  package func saturatingDifference(_ other: Self) -> Self {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (self < other ? .min : .max) : difference
  }
}

extension Duration {
  /// The duration in whole nanoseconds; 0 if negative, `UInt64.max` if longer than 584 years.
  package var wholeNanoseconds: UInt64 {
    let (seconds, attoseconds) = components
    guard seconds >= 0, attoseconds >= 0 else { return 0 }
    let (scaled, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
    let (sum, carried) = scaled.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000))
    return overflow || carried ? .max : sum
  }

  package var inSeconds: Double { Double(components.seconds) + Double(components.attoseconds) * 1e-18 }

  package init(wholeNanoseconds nanoseconds: UInt64) {
    self.init(
      secondsComponent: Int64(nanoseconds / 1_000_000_000),
      attosecondsComponent: Int64(nanoseconds % 1_000_000_000) * 1_000_000_000
    )
  }
}

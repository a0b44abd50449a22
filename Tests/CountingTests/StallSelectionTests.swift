import CulpritStallRecord
import SampleRecordings
import Testing

@testable import CulpritCounting

@Suite struct StallSelectionTests {
  private let now = WallTime(nanosecondsSince1970: 1_795_170_231_000_000_000)

  @Test(arguments: [
    ("2026-11-20T10:23:51Z", "2026-11-20T10:23:51.000Z"), ("2026-11-20T10:23:51.25Z", "2026-11-20T10:23:51.250Z"),
    ("2026-11-20T12:23:51+02:00", "2026-11-20T10:23:51.000Z"),
    ("2026-11-20T00:23:51-05:30", "2026-11-20T05:53:51.000Z"),
    ("2026-11-20", "2026-11-20T00:00:00.000Z"), ("51s", "2026-11-20T10:23:00.000Z"),
    ("23m", "2026-11-20T10:00:51.000Z"),
    ("2h", "2026-11-20T08:23:51.000Z"), ("1d", "2026-11-19T10:23:51.000Z"), ("2w", "2026-11-06T10:23:51.000Z"),
    // Times out of range are clamped.
    ("1969-01-01", "1970-01-01T00:00:00.000Z"), ("0000-02-29T00:00:00Z", "1970-01-01T00:00:00.000Z"),
    ("1970-01-01T00:00:00+01:00", "1970-01-01T00:00:00.000Z"), ("999999999w", "1970-01-01T00:00:00.000Z"),
    ("9999-12-31", "2554-07-21T23:34:33.709Z"), ("2554-01-01T00:00:00-23:59", "2554-07-21T23:34:33.709Z"),
  ])
  func parsesAllTimeForms(text: String, time: String) {
    #expect(WallTime(argument: text, now: now)?.description == time)
  }

  @Test(arguments: [
    "", "h", "2", "2 h", "-2h", "2y", "9999999999w", "2026-13-01", "2026-02-30", "yesterday", "2026-11-20T25:00:00Z",
    "2026-11-20T10:23:51", "2026-11-20T10:23:51+24:00", "2026-11-20T10:23:51+01:60", "2026-11-20+02:00",
    "1900-02-29", "9999-13-01", "10000-01-01", "+969-01-01", "9999-12-31T24:00:00Z",
  ])
  func rejectsInvalidTimes(text: String) { #expect(WallTime(argument: text, now: now) == nil) }

  private func includes(
    host: String = "web-1",
    executable: String = "/opt/shop (deleted)",
    _ set: (inout StallSelection) -> Void
  ) -> Bool {
    var selection = StallSelection()
    set(&selection)
    let stall = Stall("http", kind: .probedLoop, threshold: .zero, began: now)
    let process = ObservedProcess(1, executable, since: now, host: host)
    return selection.includes(stall, from: StallOrigin(Recording(process: process)))
  }

  /// A period includes its first moment, but not its last. So no stall is in two adjacent periods.
  @Test func selectsStallsByTime() {
    let later = WallTime(nanosecondsSince1970: now.nanosecondsSince1970 + 1)
    #expect(includes { $0.since = now } && !includes { $0.since = later })
    #expect(includes { $0.until = later } && !includes { $0.until = now })
  }

  @Test func selectsStallsByOrigin() {
    #expect(includes { _ in })
    #expect(includes { $0.sources = ["http"] } && includes { $0.sources = ["x", "probedLoop"] })
    #expect(!includes { $0.sources = ["loop"] })
    #expect(includes { $0.hosts = ["web-2", "web-1"] } && !includes { $0.hosts = ["web"] })
    #expect(includes { $0.services = ["shop"] } && !includes { $0.services = ["/opt/shop"] })
    #expect(!includes { ($0.sources, $0.hosts) = (["http"], ["web-2"]) })
    #expect(includes(host: "") { $0.hosts = ["unknown"] } && !includes { $0.hosts = ["unknown"] })
    #expect(includes(executable: "") { $0.services = ["unknown"] } && !includes { $0.services = ["unknown"] })
    var selection = StallSelection()
    #expect(selection.includes(signature: "77c01b5e2f90"))
    selection.signatures = ["1f3a", "77"]
    #expect(selection.includes(signature: "77c01b5e2f90") && !selection.includes(signature: "71f3a0000000"))
  }

  @Test func limitsWatchedTimeToSelection() {
    func time(_ seconds: UInt64) -> WallTime { WallTime(nanosecondsSince1970: seconds * 1_000_000_000) }
    var selection = StallSelection()
    #expect(selection.watched(from: time(10), to: time(30)) == .seconds(20))
    (selection.since, selection.until) = (time(15), time(20))
    #expect(selection.watched(from: time(10), to: time(30)) == .seconds(5))
    #expect(selection.watched(from: time(25), to: time(30)) == .zero)
    #expect(selection.watched(from: time(18), to: time(30)) == .seconds(2))
  }
}

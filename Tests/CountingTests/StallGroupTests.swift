import CulpritReports
import CulpritStallRecord
import SplitMix
import Testing

@testable import CulpritCounting

@Suite struct StallGroupTests {
  /// A group has its total time, its worst, newest and oldest stall, and its hosts, labels and versions.
  @Test func groupsStallsOfOneProblem() throws {
    let stalls = [
      counted("1", "load()", seconds: 2, at: 50, host: "web-2", version: "cd", line: 31, labels: ["GET /"]),
      counted("2", "load()", seconds: 5, at: 10, cause: .lock, line: 29, labels: ["GET /", "user 7"]),
      counted("3", "load()", seconds: 1, at: 30, version: "", line: 29), counted("4", "store()", seconds: 9, at: 20),
    ]
    let groups = StallGroups(stalls)
    #expect(groups.count == 4 && groups.total == .seconds(17))
    #expect(groups.span?.lowerBound == StallReport.Timestamp(nanosecondsSince1970: 10_000_000_000))
    #expect(groups.groups.map(\.count) == [1, 3])
    let group = groups.groups[1]
    #expect(group.total == .seconds(8) && group.worst.id == "2" && group.newest.id == "1")
    #expect(group.newest.place == "Store.swift:31")
    #expect(group.firstSeen.nanosecondsSince1970 == 10_000_000_000 && group.lastSeen == stalls[0].began)
    #expect(group.hosts.all.map(\.name) == ["web-1", "web-2"] && group.hosts.all.map(\.count) == [2, 1])
    #expect(group.versions.all.map(\.name) == ["ab", "cd"])
    #expect(group.causes.first == "computing" && group.labels.all.map(\.count) == [2, 1])
  }

  /// The order of groups does not depend on the order of the stalls.
  @Test func ordersGroupsByTotalTime() {
    var random = SplitMix(7)
    let stalls = (0..<200).map { number in
      let seconds = Int.random(in: 1...4, using: &random)
      return counted("\(number)", "f\(number % 17)()", seconds: Double(seconds), at: UInt64(number))
    }
    let groups = StallGroups(stalls)
    for (heavier, lighter) in zip(groups.groups, groups.groups.dropFirst()) { #expect(heavier.total >= lighter.total) }
    #expect(groups.groups.reduce(0) { $0 + $1.count } == 200)
    #expect(groups.groups.reduce(.zero) { $0 + $1.total } == groups.total)
    for _ in 0..<10 {
      let isSame = StallGroups(stalls.shuffled(using: &random)) == groups
      #expect(isSame)
    }
  }

  @Test(arguments: [(Grouping.culprit, 2), (.cause, 2), (.source, 3), (.service, 1), (.host, 2), (.version, 3)])
  func groupsByRequestedKey(grouping: Grouping, count: Int) {
    let queue = StallReport.Source(kind: .queue, name: "main")
    let other = StallReport.Source(kind: .loop, name: "admin")
    let stalls = [
      counted("1", "load()"), counted("2", "store()", host: "web-2"), counted("3", version: "cd", source: queue),
      counted("4", version: "ef", source: other, cause: .network),
    ]
    let groups = StallGroups(stalls, by: grouping)
    #expect(groups.groups.count == count)
    #expect(groups.groups.reduce(0) { $0 + $1.count } == 4)
  }

  /// A directory and its later copy have equal stalls, which end only in the copy. Process ids are unique only per
  /// host.
  @Test func mergesDuplicateStalls() {
    let merged = [
      counted("7", seconds: 2, at: 5, hasEnded: false), counted("7", seconds: 3, at: 5),
      counted("7", at: 6, host: "web-2"),
      counted("8", seconds: 4, at: 7), counted("7", seconds: 2.5, at: 5, hasEnded: false),
    ].merged()
    #expect(merged.map(\.duration) == [.seconds(4), .seconds(1), .seconds(3)])
    #expect(merged.map(\.id) == ["8", "7", "7"] && merged[2].hasEnded)
  }

  /// The name of a function without a symbol consists of its module and address, so the module is not repeated.
  @Test func printsAddressOnce() throws {
    var stall = counted()
    stall.function?.location = nil
    let module = try #require(stall.function?.moduleName)
    #expect(stall.place == module)
    stall.function?.name = "\(module)+0x1234"
    #expect(stall.place == nil)
  }

  /// Stalls are grouped by the full name of their source, but a table truncates the name.
  @Test func truncatesLongNamesInTables() {
    let long = String(repeating: "0123456789", count: 100)
    let stalls = ["a", "b"].enumerated().map { place, end in
      counted("\(place)", source: StallReport.Source(kind: .loop, name: long + end + long))
    }
    #expect(StallGroups(stalls, by: .source).groups.count == 2)
    let text = StallGroups(stalls).text()
    #expect(text.contains("event loop \"0123") && text.contains("6789\" of shop and 1 more"), "\(text)")
    #expect(text.utf8.count < 1000)
    var blank = counted()
    blank.function?.name = " "
    #expect(blank.culprit == "(a name of spaces)")
  }

  @Test func namesLocationOfSuspendedWork() {
    var stall = counted("1", "Backend.query(_:)", line: 41)
    stall.verdict = .suspended
    #expect(stall.culprit == "suspended in Backend.query(_:)" && stall.place == "Store.swift:41")
    #expect(StallGroups([stall]).text().contains("suspended in Backend.query(_:) (Store.swift:41)"))
  }

  @Test func printsTableWithDetails() {
    let stalls = [
      counted("1", "load()", seconds: 2, at: 100, labels: ["GET /\u{1b}[2J"]),
      counted("2", "load()", seconds: 3, at: 50),
      counted("3", "a\u{1b}[2Jb\nc\"\\", seconds: 1, at: 60),
    ]
    let groups = StallGroups(stalls)
    let (load, other) = (groups.groups[0].key, groups.groups[1].key)
    #expect(
      groups.text(details: true) == """
        3 stalls of 2 kinds, 6.00 s, from 1970-01-01T00:00:50.000Z to 1970-01-01T00:01:40.000Z

        COUNT   TOTAL   WORST  LAST SEEN                 CAUSE      SIGNATURE     CULPRIT                              SOURCE
            2  5.00 s  3.00 s  1970-01-01T00:01:40.000Z  computing  \(load)  load() (Store.swift:1)               event loop "http" of shop
                 first seen 1970-01-01T00:00:50.000Z
                 hosts web-1 (2)
                 versions ab (2)
                 causes computing (2)
                 labels GET /\\u{1b}[2J (1)
            1  1.00 s  1.00 s  1970-01-01T00:01:00.000Z  computing  \(other)  a\\u{1b}[2Jb\\u{a}c"\\ (Store.swift:1)  event loop "http" of shop
                 first seen 1970-01-01T00:01:00.000Z
                 hosts web-1 (1)
                 versions ab (1)
                 causes computing (1)

        """
    )
    #expect(groups.text(limit: 1).hasSuffix("of shop\n… and 1 more\n"))
    #expect(StallGroups([]).text() == "no stalls\n")
  }
}

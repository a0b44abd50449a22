import CulpritStallRecord
import Foundation
import Testing

@testable import Culprit
@testable import CulpritBlackBox

/// The names that a launch adds to what an earlier run could not name any more.
@Suite struct LateNamesTests {
  private let since = WallTime(nanosecondsSince1970: 1_790_000_000_000_000_000)

  /// What a run left that was killed: its own file, and `count` stalls, of which every other one has its names.
  private func leave(_ count: Int, in directory: String) throws -> [String] {
    let stem = "\(directory)/culprit-\(since.fileNamePart)-7"
    let record = RunRecord(
      identity: ProcessIdentity(process: 7, start: 1, boot: "another", namespace: 1),
      executable: "/opt/shop/shop",
      since: since,
      memoryKills: []
    )
    try Data(record.text.utf8).write(to: URL(fileURLWithPath: stem + ".run"))
    let process = ObservedProcess(
      id: 7,
      executable: "/opt/shop/shop",
      architecture: "x86_64",
      observerVersion: Watchdog.version,
      watchedSince: since
    )
    return try (1...count).map { number in
      let content =
        StallFileWriter.file(of: Recording(process: process))
        + (number % 2 == 0 ? StallFileWriter.recordOfNamesLookedUp() : [])
      let path = "\(stem)-\(number).stall"
      try Data(content).write(to: URL(fileURLWithPath: path))
      return path
    }
  }

  private func isNamed(_ path: String) throws -> Bool {
    let content = try Data(contentsOf: URL(fileURLWithPath: path))
    return StallFileWriter.areNamesLookedUp([UInt8](content.suffix(StallFileWriter.namesLookedUpBytes)))
  }

  /// Each file gets its names once, and none stays open.
  @Test func filesAreNamedAndClosed() throws {
    try withDirectory { directory in
      let paths = try leave(6, in: directory)
      #expect(try paths.map(isNamed) == [false, true, false, true, false, true])
      let named = try Data(contentsOf: URL(fileURLWithPath: paths[1]))
      let runs = PreviousRuns(directory: directory, own: "none", ReportSettings(Watchdog.Configuration()))
      runs.addNames()
      // Nobody is told when it is done.
      func isDone() throws -> Bool {
        try paths.allSatisfy(isNamed) && !openFiles().contains { $0.path.hasPrefix(directory) }
      }
      for _ in 0..<20_000 {
        if try isDone() { break }
        usleep(1000)
      }
      #expect(try paths.allSatisfy(isNamed))
      #expect(try openFiles().filter { $0.path.hasPrefix(directory) }.map(\.path) == [])
      #expect(try Data(contentsOf: URL(fileURLWithPath: paths[1])) == named)
    }
  }
}

import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@testable import Culprit
@testable import CulpritBlackBox

@Suite(.serialized, .usesSimulatedClock) struct LateNamesTests {
  @TemporaryDirectory private var directory: String
  private let since = WallTime(nanosecondsSince1970: 1_790_000_000_000_000_000)

  private func leave(_ count: Int, in directory: String) throws -> [String] {
    let stem = "\(directory)/culprit-\(since.fileNamePart)-7"
    let record = RunRecord(
      identity: ProcessIdentity(process: 7, start: 1, boot: "another", namespace: 1),
      executable: "/opt/shop/shop",
      since: since,
      memoryKills: []
    )
    try Data(record.text.utf8).write(to: URL(fileURLWithPath: stem + ".run"))
    let process = ObservedProcess(7, "/opt/shop/shop", version: Watchdog.version, since: since)
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

  @Test func addsNamesAndClosesFiles() throws {
    let paths = try leave(6, in: directory)
    #expect(try paths.map(isNamed) == [false, true, false, true, false, true])
    let named = try Data(contentsOf: URL(fileURLWithPath: paths[1]))
    let runs = PreviousRuns(directory: directory, own: "none", ReportSettings(Watchdog.Configuration()))
    runs.addNames()
    clock.settle()
    #expect(try paths.allSatisfy(isNamed))
    #expect(try openFiles().filter { $0.path.hasPrefix(directory) }.map(\.path) == [])
    #expect(try Data(contentsOf: URL(fileURLWithPath: paths[1])) == named)
  }
}

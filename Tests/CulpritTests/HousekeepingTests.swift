import Foundation
import StallRecord
import Testing

@testable import Culprit

/// What is removed of what earlier runs left, and what stays.
@Suite struct HousekeepingTests {
  private func stall(ended: Bool) -> Data {
    let stall = Stall(
      id: 1,
      source: WatchedSource(kind: .loop, name: "main"),
      thread: ObservedThread(id: 1, name: ""),
      threshold: .seconds(1),
      began: WallTime(nanosecondsSince1970: 0),
      duration: .seconds(2),
      hasEnded: ended
    )
    return Data(StallFileWriter.file(of: Recording(process: nil, stalls: [stall])))
  }

  private func run(ended: Bool) -> Data {
    Data("culprit-run 1\nprocess 7\nstart 1\nboot b\nnamespace 1\nsince 5\n\(ended ? "ended 6\n" : "")".utf8)
  }

  /// The oldest go first, what ended well before what did not; an unread fatal hang stays whatever the limit.
  @Test func whatEndedWellGoesFirst() throws {
    try withDirectory { directory in
      let files: [(name: String, content: Data)] = [
        ("culprit-20260101T000001.000Z-7.run", run(ended: false)),
        ("culprit-20260101T000002.000Z-7-1.stall", stall(ended: false)),
        ("culprit-20260101T000003.000Z-8-1.stall", stall(ended: false)),
        ("culprit-20260101T000004.000Z-8-2.stall", stall(ended: true)),
        ("culprit-20260101T000005.000Z-9.run", run(ended: true)), ("others.txt", Data("theirs".utf8)),
      ]
      for (name, content) in files { try content.write(to: URL(fileURLWithPath: "\(directory)/\(name)")) }
      var removed: [[String]] = []
      for limit in [3, 2, 1, 0] {
        let limits = DirectoryLimits(files: limit)
        Housekeeping(directory: directory, limits: limits, own: nil).tidy()
        let left = Set(try FileManager.default.contentsOfDirectory(atPath: directory))
        removed.append(files.map(\.name).filter { !left.contains($0) })
      }
      #expect(removed[0] == [])
      #expect(removed[1] == [files[3].name])
      #expect(removed[2] == [files[3].name, files[4].name])
      #expect(removed[3] == [files[2].name, files[3].name, files[4].name])
    }
  }

  @Test func theDirectoryFollowsTheConventions() {
    func directory(_ variables: [String: String]) -> String? {
      Configuration.standardDirectory(executable: "/usr/bin/shop") { variables[$0] }
    }
    let home = ["HOME": "/home/a"]
    #expect(directory(home) == "/home/a/.local/state/culprit/shop")
    #expect(directory(home.merging(["XDG_STATE_HOME": "/s"]) { $1 }) == "/s/culprit/shop")
    #expect(directory(home.merging(["XDG_STATE_HOME": "relative"]) { $1 }) == "/home/a/.local/state/culprit/shop")
    #expect(directory(["RUNTIME_DIRECTORY": "/run/shop", "XDG_STATE_HOME": "/s"]) == "/run/shop/culprit")
    #expect(directory(["STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "RUNTIME_DIRECTORY": "/r"]) == "/var/lib/a/culprit")
    #expect(directory([:]) == nil)
  }
}

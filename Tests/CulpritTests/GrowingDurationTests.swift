import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import Culprit

/// What a `.stall` file says of a stall that has not ended.
@Suite(.usesObserver) struct GrowingDurationTests {
  /// Samples are a second apart; the duration on the disk grows between them.
  @Test func theDurationGrowsBetweenSamples() throws {
    try withDirectory { directory in
      let watchdog = try Watchdog(
        Watchdog.Configuration(threshold: .seconds(1), interval: .seconds(1), directory: directory)
      )
      defer { watchdog.stop() }
      let loop = try watchdog.watchLoop(named: "main")
      var seen: [Duration: Set<Duration>] = [:]
      loop.withTurn {
        // However many samples have come: between two of them there must be several durations.
        while !seen.values.contains(where: { $0.count >= 4 }) {
          usleep(20_000)
          guard let path = try? stallFiles(in: directory).first, let file = try? read(path),
            let stall = file.recording.stalls.first
          else { continue }
          #expect(!stall.hasEnded)
          seen[stall.samples.last?.age ?? .zero, default: []].insert(stall.duration)
        }
      }
      watchdog.stop()
      let file = try read(try #require(try stallFiles(in: directory).first))
      let stall = try #require(file.recording.stalls.first)
      #expect(stall.hasEnded && file.problems.isEmpty)
      let latest = seen.values.flatMap { $0 }.max() ?? .zero
      #expect(stall.duration >= latest)
    }
  }
}

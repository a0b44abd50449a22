import CulpritStallRecord
import Foundation
import TestSupport
import Testing

@testable import Culprit

@Suite(.usesSimulatedClock) struct GrowingDurationTests {
  @TemporaryDirectory private var directory: String

  /// The saved duration must grow between late samples, one second apart.
  @Test func savesDurationBetweenSamples() throws {
    let watchdog = try Watchdog(
      Watchdog.Configuration(threshold: .seconds(1), interval: .seconds(1), directory: directory)
    )
    defer { watchdog.stop() }
    let loop = try watchdog.watchLoop(named: "main")
    var seen: [Duration: Set<Duration>] = [:]
    loop.withTurn {
      for _ in 0..<120 {
        clock.block(for: .milliseconds(100))
        guard let path = stallFiles(in: directory).first, let file = try? read(path),
          let stall = file.recording.stalls.first
        else { continue }
        #expect(!stall.hasEnded)
        seen[stall.samples.last?.age ?? .zero, default: []].insert(stall.duration)
      }
    }
    #expect(seen.values.contains { $0.count >= 4 }, "\(seen)")
    watchdog.stop()
    let file = try read(try #require(stallFiles(in: directory).first))
    let stall = try #require(file.recording.stalls.first)
    #expect(stall.hasEnded && file.problems.isEmpty)
    let latest = seen.values.flatMap { $0 }.max() ?? .zero
    #expect(stall.duration >= latest && stall.duration <= .seconds(12))
  }
}

import Judges
import Culprit
import Glibc
import Synchronization

/// The cheapest mark of a work item: one clock read and two stores.
final class BareMark: Sendable {
  private let began = Atomic<UInt64>(0)

  @inline(never)
  func begin() {
    var now = timespec()
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now)
    began.store(UInt64(now.tv_sec) &* 1_000_000_000 &+ UInt64(now.tv_nsec), ordering: .relaxed)
  }

  @inline(never)
  func end() { began.store(0, ordering: .relaxed) }
}

/// Measures `begin` and `end` alternately with a bare pair of relaxed stores and a coarse clock read.
func benchHealthy(_ figures: Figures) throws {
  let watchdog = try Watchdog()
  defer { watchdog.stop() }
  let loop = try watchdog.watchLoop(named: "healthy")
  let bare = BareMark()
  let (rounds, pairs) = (300, 20_000)
  var loopTimes: [Double] = []
  var bareTimes: [Double] = []
  for _ in 0..<rounds {
    bareTimes.append(
      nanoseconds(of: pairs) {
        bare.begin()
        bare.end()
      }
    )
    loopTimes.append(
      nanoseconds(of: pairs) {
        loop.begin()
        loop.end()
      }
    )
  }
  let ratios = zip(loopTimes, bareTimes).map { $0 / $1 }
  figures.print("healthy.pair_ns", median(loopTimes), "ns")
  figures.print("healthy.bare_pair_ns", median(bareTimes), "ns")
  figures.print("healthy.ratio", median(ratios), "times", in: 0...3)
}

/// Returns the mean time of `count` runs of `body`, in nanoseconds.
func nanoseconds(of count: Int, _ body: () -> Void) -> Double {
  let clock = ContinuousClock()
  let time = clock.measure { for _ in 0..<count { body() } }
  return (Double(time.components.seconds) * 1e9 + Double(time.components.attoseconds) * 1e-9) / Double(count)
}

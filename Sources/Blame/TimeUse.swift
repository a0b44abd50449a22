import CulpritStallRecord

/// A thread's use of the time around a sample. The state at the sample itself is random.
struct TimeUse {
  /// Shares of time on a CPU, and ready to run without a CPU. The rest is waiting.
  var used = 0.0
  var delayed = 0.0
  var isKnown = false
  var isDelayEstimated = false

  var waited: Double { max(0, 1 - used - delayed) }

  private struct Interval {
    var passed: Double
    var used: Double
    var delayed: Double
    var isDelayKnown: Bool
  }

  static func around(_ samples: [Sample]) -> [TimeUse] {
    var uses = [TimeUse](repeating: TimeUse(), count: samples.count)
    var begin = 0
    while begin < samples.count {
      var end = begin
      while end + 1 < samples.count, samples[end + 1].threadID == samples[begin].threadID { end += 1 }
      let intervals = intervals(Array(samples[begin...end]))
      for place in 0...(end - begin) {
        let near = [place - 1, place].compactMap { intervals.indices.contains($0) ? intervals[$0] : nil }
        let passed = near.reduce(0) { $0 + $1.passed }
        guard passed > 0 else { continue }
        uses[begin + place].isKnown = true
        uses[begin + place].used = near.reduce(0) { $0 + $1.used } / passed
        uses[begin + place].delayed = near.reduce(0) { $0 + $1.delayed } / passed
        uses[begin + place].isDelayEstimated = near.contains { !$0.isDelayKnown }
      }
      begin = end + 1
    }
    return uses
  }

  private static func intervals(_ samples: [Sample]) -> [Interval?] {
    var all = zip(samples, samples.dropFirst())
      .map { one, next -> Interval? in
        guard let before = one.cpuTime, let after = next.cpuTime, after >= before, next.age > one.age else {
          return nil
        }
        let passed = (next.age - one.age).inSeconds
        let used = min(passed, (after - before).inSeconds)
        guard let waitedBefore = one.runDelay, let waitedAfter = next.runDelay, waitedAfter >= waitedBefore else {
          return Interval(passed: passed, used: used, delayed: 0, isDelayKnown: false)
        }
        return Interval(
          passed: passed,
          used: used,
          delayed: (waitedAfter - waitedBefore).inSeconds,
          isDelayKnown: true
        )
      }
    // The kernel counts a wait for a CPU at its end. A part that exceeds the interval belongs to earlier intervals.
    var carried = 0.0
    for place in all.indices.reversed() {
      guard let interval = all[place], interval.isDelayKnown else {
        carried = 0
        continue
      }
      let delayed = min(interval.passed - interval.used, interval.delayed + carried)
      carried = max(0, interval.delayed + carried - delayed)
      all[place]?.delayed = delayed
    }
    // An unfinished wait is not counted yet: the thread was ready to run and used no CPU time.
    for place in all.indices.reversed() {
      guard let interval = all[place], interval.isDelayKnown, interval.used == 0, interval.delayed == 0,
        samples[place].activity == .running, samples[place + 1].activity == .running
      else { break }
      all[place]?.delayed = interval.passed
    }
    estimateDelays(&all, samples)
    return all
  }

  private static let estimateMin = 0.05

  /// Without schedstat, estimates the time ready to run: the time running or ready, minus the CPU time.
  private static func estimateDelays(_ all: inout [Interval?], _ samples: [Sample]) {
    var (passed, used, running) = (0.0, 0.0, 0.0)
    for place in all.indices {
      guard let interval = all[place], !interval.isDelayKnown else { continue }
      passed += interval.passed
      used += interval.used
      let found = [samples[place], samples[place + 1]].count { $0.activity == .running }
      running += interval.passed * Double(found) / 2
    }
    guard running - used > Self.estimateMin * passed, passed > used else { return }
    let part = (running - used) / (passed - used)
    for place in all.indices {
      guard let interval = all[place], !interval.isDelayKnown else { continue }
      all[place]?.delayed = (interval.passed - interval.used) * part
    }
  }
}

import CulpritStallRecord

extension StallReport.Counts {
  /// Computes the differences between the first and the last of `samples`, which must be in order of time.
  init(_ samples: [Sample]) {
    let alone = samples.filter { $0.threadID == nil && !$0.isInTheWay }
    let thread = Self.counters(samples)
    // Linux reports 100 ticks a second to user space on all supported architectures (USER_HZ).
    func ticks(_ count: UInt64?) -> Seconds? { count.map { Seconds(.milliseconds(10) * Double($0)) } }
    func difference(_ counts: [UInt64]) -> UInt64? {
      guard let first = counts.first, let last = counts.last, counts.count > 1 else { return nil }
      return last - min(first, last)
    }
    let surroundings = samples.ordered { $0.age < $1.age }.compactMap(\.evidence.surroundings)
    func passed(_ count: (SurroundingCounters) -> Duration?) -> Seconds? {
      difference(surroundings.compactMap(count).map(\.wholeNanoseconds))
        .map { Seconds(Duration(wholeNanoseconds: $0)) }
    }
    let functions = Dictionary(grouping: alone.map(\.evidence.kernelFunction).filter { !$0.isEmpty }) { $0 }
    self.init(
      timeslices: difference(alone.compactMap(\.evidence.timeslices)),
      voluntarySwitches: thread?.voluntarySwitches,
      involuntarySwitches: thread?.involuntarySwitches,
      minorFaults: thread?.minorFaults,
      majorFaults: thread?.majorFaults,
      userSeconds: ticks(thread?.userTicks),
      systemSeconds: ticks(thread?.systemTicks),
      readBytes: thread?.readBytes,
      writtenBytes: thread?.writtenBytes,
      diskReadBytes: thread?.diskReadBytes,
      diskWrittenBytes: thread?.diskWrittenBytes,
      throttledSeconds: passed(\.throttled),
      memoryStalledSeconds: passed(\.memoryStalled),
      diskStalledSeconds: passed(\.diskStalled),
      refaultedBytes: difference(surroundings.compactMap(\.refaultedBytes)),
      memoryLimitHits: difference(surroundings.compactMap(\.memoryLimitHits)),
      runnableThreads: surroundings.compactMap(\.runnableThreads).max(),
      cpuCount: surroundings.compactMap(\.cpuCount).max(),
      kernelFunctions: functions.ordered { ($1.value.count, $0.key) < ($0.value.count, $1.key) }.prefix(3).map(\.key)
    )
  }

  static func counters(_ samples: [Sample]) -> ThreadCounters? {
    let counters = samples.filter { $0.threadID == nil && !$0.isInTheWay }.compactMap(\.evidence.counters)
    return counters.count > 1 ? counters[counters.count - 1].since(counters[0]) : nil
  }

  var isEmpty: Bool { self == Self([]) }
}

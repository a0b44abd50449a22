import CulpritStallRecord

/// The kernel's counts during a stall: differences between the first and the last sample.
package struct StallCounts: Hashable, Sendable {
  /// The counts of the stalled thread; `nil` if it was not counted twice.
  package var thread: ThreadCounters?
  /// How often the thread was scheduled; `nil` if unknown.
  package var timeslices: UInt64?
  /// The time for which the control group was throttled by its quota; `nil` if unknown.
  package var throttled: Duration?
  /// The times for which any thread of the control group, or of the machine, waited for memory and for a disk; `nil` if
  /// unknown.
  package var memoryStalled: Duration?
  package var diskStalled: Duration?
  /// The bytes of files that the control group read again after the kernel had reclaimed them, and the number of
  /// allocations that met the group's memory limit; `nil` if unknown.
  package var refaultedBytes: UInt64?
  package var memoryLimitHits: UInt64?
  /// The maximum number of runnable threads of the machine, and its number of CPUs; `nil` if unknown.
  package var runnableThreads: UInt32?
  package var cpuCount: UInt32?
  /// The kernel functions in which the thread slept most, with numbers of samples, limited in number.
  package var kernelFunctions: [KernelFunction]

  /// A kernel function.
  package struct KernelFunction: Hashable, Sendable {
    package var name: String
    package var sampleCount: Int
  }

  /// Whether nothing was counted.
  package var isEmpty: Bool { self == StallCounts([]) }

  /// Computes the counts from `samples`, which must be in order of time. Samples of individual threads of a source are
  /// ignored.
  init(_ samples: [Sample]) {
    let alone = samples.filter { $0.threadID == nil && !$0.isInTheWay }
    let counters = alone.compactMap(\.evidence.counters)
    thread = counters.count > 1 ? counters[counters.count - 1].since(counters[0]) : nil
    func difference(_ counts: [UInt64]) -> UInt64? {
      guard let first = counts.first, let last = counts.last, counts.count > 1 else { return nil }
      return last - min(first, last)
    }
    timeslices = difference(alone.compactMap(\.evidence.timeslices))
    let surroundings = samples.sorted { $0.age < $1.age }.compactMap(\.evidence.surroundings)
    func passed(_ count: (SurroundingCounters) -> Duration?) -> Duration? {
      difference(surroundings.compactMap(count).map(\.wholeNanoseconds)).map(Duration.init(wholeNanoseconds:))
    }
    throttled = passed(\.throttled)
    memoryStalled = passed(\.memoryStalled)
    diskStalled = passed(\.diskStalled)
    refaultedBytes = difference(surroundings.compactMap(\.refaultedBytes))
    memoryLimitHits = difference(surroundings.compactMap(\.memoryLimitHits))
    runnableThreads = surroundings.compactMap(\.runnableThreads).max()
    cpuCount = surroundings.compactMap(\.cpuCount).max()
    let functions = Dictionary(grouping: alone.map(\.evidence.kernelFunction).filter { !$0.isEmpty }) { $0 }
    kernelFunctions = functions.map { KernelFunction(name: $0.key, sampleCount: $0.value.count) }
      .sorted { $0.sampleCount != $1.sampleCount ? $0.sampleCount > $1.sampleCount : $0.name < $1.name }
      .prefix(3).map { $0 }
  }
}

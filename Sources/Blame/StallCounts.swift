import CulpritStallRecord

/// What the kernel counted while a stall was sampled: differences between the first count and the last one.
package struct StallCounts: Hashable, Sendable {
  /// Of the stalled thread; `nil` where it was not counted twice.
  package var thread: ThreadCounters?
  /// How often it got a processor; `nil` if unknown.
  package var turns: UInt64?
  /// How long the control group was kept from running by its quota; `nil` if unknown.
  package var throttled: Duration?
  /// How long somebody in the control group, or on the machine, waited for memory, and for a disk; `nil` if unknown.
  package var memoryStalled: Duration?
  package var diskStalled: Duration?
  /// The most threads of the machine that wanted a processor at a time, and how many processors there are; `nil` if unknown.
  package var runnableThreads: UInt32?
  package var processors: UInt32?
  /// The kernel's functions that the thread slept in most, the first few, with the number of samples.
  package var kernelFunctions: [KernelFunction]

  /// A function of the kernel's.
  package struct KernelFunction: Hashable, Sendable {
    package var name: String
    package var sampleCount: Int
  }

  /// Whether nothing was counted.
  package var isEmpty: Bool { self == StallCounts([]) }

  /// What `samples` have, which are in order of time. Of several threads that work on one source nothing is told of each.
  init(_ samples: [Sample]) {
    let alone = samples.filter { $0.threadID == nil && !$0.isInTheWay }
    let counters = alone.compactMap(\.evidence.counters)
    thread = counters.count > 1 ? counters[counters.count - 1].since(counters[0]) : nil
    func difference(_ counts: [UInt64]) -> UInt64? {
      guard let first = counts.first, let last = counts.last, counts.count > 1 else { return nil }
      return last - min(first, last)
    }
    turns = difference(alone.compactMap(\.evidence.turns))
    let surroundings = samples.sorted { $0.age < $1.age }.compactMap(\.evidence.surroundings)
    func passed(_ count: (SurroundingCounters) -> Duration?) -> Duration? {
      difference(surroundings.compactMap(count).map(\.wholeNanoseconds)).map(Duration.init(wholeNanoseconds:))
    }
    throttled = passed(\.throttled)
    memoryStalled = passed(\.memoryStalled)
    diskStalled = passed(\.diskStalled)
    runnableThreads = surroundings.compactMap(\.runnableThreads).max()
    processors = surroundings.compactMap(\.processors).max()
    let functions = Dictionary(grouping: alone.map(\.evidence.kernelFunction).filter { !$0.isEmpty }) { $0 }
    kernelFunctions = functions.map { KernelFunction(name: $0.key, sampleCount: $0.value.count) }
      .sorted { $0.sampleCount != $1.sampleCount ? $0.sampleCount > $1.sampleCount : $0.name < $1.name }
      .prefix(3).map { $0 }
  }
}

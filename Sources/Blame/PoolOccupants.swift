import CulpritStallRecord

enum PoolOccupants {
  /// The functions that run a job on a Swift concurrency thread. They mark a thread as occupied.
  private static let runners = words("swift_job_run swift_job_runImpl")

  /// Returns the stall to analyze. In a pool without samples, each occupied thread of the single capture becomes a
  /// sample. All samples have equal shares of the time.
  static func observed(_ stall: Stall, _ stacks: [Stack], _ resolve: (StackFrame) -> [ResolvedFrame]) -> Stall {
    guard stall.source.kind == .pool, !stall.samples.contains(where: { $0.threadID != nil }) else { return stall }
    var isRunner: [StackFrame: Bool] = [:]
    let occupied = (stall.others?.threads ?? []).filter { thread in
      guard let index = thread.stack, stacks.indices.contains(index) else { return false }
      return stacks[index].frames.contains { frame in
        if let known = isRunner[frame] { return known }
        let found = resolve(frame).contains { $0.rawName.map(runners.contains) ?? false }
        isRunner[frame] = found
        return found
      }
    }
    var result = stall
    result.samples = []
    result.lostSamples = 0
    result.isDamaged = false
    for (index, thread) in occupied.enumerated() {
      let middle = Double(2 * index + 1) / Double(2 * occupied.count)
      // Differences between the CPU times of different threads are meaningless.
      result.samples.append(
        Sample(
          age: stall.duration * middle,
          stack: thread.stack,
          outcome: thread.outcome,
          cpuTime: nil,
          activity: thread.activity
        )
      )
    }
    return result
  }
}

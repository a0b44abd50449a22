import CulpritStallRecord

/// What occupied the threads of a pool that nothing could be run on.
enum PoolOccupants {
  /// What runs a job on a thread of Swift concurrency's: whoever has it on its stack is occupied.
  private static let runners: Set<String> = ["swift_job_run", "swift_job_runImpl"]

  /// What `stall` is worked out from: of a pool whose threads were not followed, those that were seen once are the samples.
  static func observed(_ stall: Stall, _ stacks: [Stack], _ resolve: (StackFrame) -> [ResolvedFrame]) -> Stall {
    guard stall.source.kind == .pool, !stall.samples.contains(where: { $0.threadID != nil }) else { return stall }
    return asSamples(stall, stacks, resolve)
  }

  /// `stall`, of a pool, as if each thread of the pool had been a sample of it: all with the same share of the time.
  ///
  /// - Parameters:
  ///   - stall: The stall, for which all threads were captured.
  ///   - stacks: The stacks that the threads refer to.
  ///   - resolve: Names a frame.
  /// - Returns: The stall, with the occupied threads for samples.
  private static func asSamples(_ stall: Stall, _ stacks: [Stack], _ resolve: (StackFrame) -> [ResolvedFrame]) -> Stall
  {
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
      // Of another thread each: processor times tell nothing of the time between.
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

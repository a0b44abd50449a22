import CulpritStallRecord

extension ThreadsReport {
  /// Groups the threads of `all` by equal stacks and activities, largest groups first.
  package init(
    _ all: AllThreads,
    stacks: [CulpritStallRecord.Stack],
    rules: OwnershipRules,
    architecture: String,
    resolve: (StackFrame) -> [ResolvedFrame]
  ) {
    struct Key: Hashable {
      var functions: [FunctionIdentity]
      var activity: ThreadActivity
      var outcome: CaptureOutcome
      var end: StackEnd
      var lock: HeldLock?
    }
    var resolved: [Int: [FrameContent]] = [:]
    var order: [Key] = []
    var groups: [Key: (threads: [ObservedThread], frames: [FrameContent], descriptor: Descriptor?)] = [:]
    for sample in all.threads {
      var frames: [FrameContent] = []
      var end = StackEnd.notCaptured
      if let place = sample.stack, stacks.indices.contains(place) {
        let stack = TaskStack(stacks[place])
        end = stack.end
        frames = resolved[place] ?? stack.resolve(resolve).map { FrameContent($0) }
        resolved[place] = frames
      }
      var lock = sample.lock
      // If no function on the stack waits for a lock of this kind, the memory only looks like a lock.
      let names = frames.prefix(8).compactMap(\.resolved.rawName)
      if let kind = lock?.kind, !names.isEmpty, !names.contains(where: kind.isWaitedFor) { lock = nil }
      // Threads that wait for one lock form one group.
      lock?.waiterID = 0
      let key = Key(
        functions: frames.map(\.identity),
        activity: sample.activity,
        outcome: sample.outcome,
        end: end,
        lock: lock
      )
      if groups[key] == nil {
        order.append(key)
        groups[key] = ([], frames, sample.descriptor)
      } else if groups[key]?.descriptor?.target != sample.descriptor?.target {
        groups[key]?.descriptor = nil
      }
      groups[key]?.threads.append(sample.thread)
    }
    let sorted = order.enumerated().compactMap { place, key in groups[key].map { (place, key, $0) } }
      .ordered { ($1.2.threads.count, $0.0) < ($0.2.threads.count, $1.0) }
    self.init(
      groups: sorted.map { _, key, group in
        Group(
          threads: group.threads.map(StallReport.Thread.init),
          activity: StallReport.Activity(key.activity, architecture),
          lock: key.lock.map { lock in
            let owner = all.threads.first { $0.thread.id == lock.holderID }?.thread
            return Lock(
              kind: StallReport.WaitLink.Kind(lock.kind),
              address: lock.address,
              owner: StallReport.Thread(owner ?? ObservedThread(id: lock.holderID, name: "")),
              hasOwnerEnded: lock.isOrphaned
            )
          },
          target: group.descriptor.flatMap(DescriptorText.of),
          functions: group.frames.map { StallReport.Function($0, rules) },
          noStack: group.frames.isEmpty ? StallReport.Reason(key.outcome) : nil,
          missingCallers: group.frames.isEmpty ? nil : StallReport.Reason(key.end)
        )
      },
      omittedCount: all.leftOut,
      isComplete: all.isComplete
    )
  }
}

import CulpritStallRecord

/// Threads with equal functions on their stacks.
package struct ThreadGroup: Hashable, Sendable {
  /// The threads.
  package var threads: [ObservedThread]
  /// The activity of the threads.
  package var activity: ThreadActivity
  /// The result of the capture.
  package var outcome: CaptureOutcome
  /// The stack of the first thread, innermost first; empty if there is none.
  package var frames: [ResolvedFrame]
  /// The reason why the stack ends.
  package var end: StackEnd
  /// The lock for which the threads wait; `nil` if there is none or it is unknown.
  package var lock: HeldLock?
  /// The descriptor of the threads' system call; `nil` if it is unknown, or they have different ones.
  package var descriptor: Descriptor?

  /// Groups the threads of `all`.
  ///
  /// - Parameters:
  ///   - all: The threads.
  ///   - stacks: The stacks to which they refer.
  ///   - resolve: Symbolizes a frame. Returns the innermost function first if calls were inlined.
  /// - Returns: The groups, largest first. Groups of equal size are in the order of their first threads.
  package static func groups(
    of all: AllThreads,
    stacks: [Stack],
    resolve: (StackFrame) -> [ResolvedFrame]
  ) -> [ThreadGroup] {
    struct Key: Hashable {
      var functions: [FunctionIdentity]
      var activity: ThreadActivity
      var outcome: CaptureOutcome
      var end: StackEnd
      var lock: HeldLock?
    }
    var resolved: [Int: [ResolvedFrame]] = [:]
    var order: [Key] = []
    var groups: [Key: ThreadGroup] = [:]
    for sample in all.threads {
      var frames: [ResolvedFrame] = []
      var end = StackEnd.notCaptured
      if let place = sample.stack, stacks.indices.contains(place) {
        let stack = TaskStack(stacks[place])
        end = stack.end
        frames = resolved[place] ?? stack.resolve(resolve)
        resolved[place] = frames
      }
      var lock = sample.lock
      // A name that contradicts the lock's words shows that they are not a lock's.
      let names = frames.prefix(8).compactMap(\.rawName)
      if let kind = lock?.kind, !names.isEmpty, !names.contains(where: kind.isWaitedFor) { lock = nil }
      // Threads that wait for one lock differ in this only.
      lock?.waiterID = 0
      let key = Key(
        functions: frames.map(FunctionIdentity.init),
        activity: sample.activity,
        outcome: sample.outcome,
        end: end,
        lock: lock
      )
      if groups[key] == nil {
        order.append(key)
        groups[key] = ThreadGroup(
          threads: [],
          activity: sample.activity,
          outcome: sample.outcome,
          frames: frames,
          end: end,
          lock: lock,
          descriptor: sample.descriptor
        )
      } else if groups[key]?.descriptor?.target != sample.descriptor?.target {
        groups[key]?.descriptor = nil
      }
      groups[key]?.threads.append(sample.thread)
    }
    // The index in `order` makes sorting stable.
    return order.enumerated().compactMap { place, key in groups[key].map { (place, $0) } }
      .sorted { ($1.1.threads.count, $0.0) < ($0.1.threads.count, $1.0) }.map(\.1)
  }
}

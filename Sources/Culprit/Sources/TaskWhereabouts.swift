import CCulpritObserver
import CCulpritUnwind
import CulpritStallRecord

/// A task that somebody may ask for later: where it is then.
struct FollowedTask {
  private let address: UInt64
  private let id: UInt32

  /// The task that runs; `nil` when none does.
  static var current: FollowedTask? {
    let address = TaskProbe.current
    guard address != 0 else { return nil }
    TaskProbe.shared.startInTask()
    return FollowedTask(address: address, id: observer_swift_task_id(address))
  }

  /// What it does, or what it waits for does; `nil` when that is not known.
  var whereabouts: TaskWhereabouts? {
    guard TaskProbe.shared.hasFound else { return nil }
    var work = observer_task_work()
    observer_swift_task_find(address, id, 0, 0, &work)
    switch work.state {
    case OBSERVER_TASK_RUNNING: return TaskWhereabouts(state: .runs)
    case OBSERVER_TASK_ENQUEUED: return TaskWhereabouts(state: .isReady, frames: frames(work))
    case OBSERVER_TASK_SUSPENDED: return TaskWhereabouts(state: .isSuspended, frames: frames(work))
    default: return TaskWhereabouts(state: .hasEnded)
    }
  }

  private func frames(_ work: observer_task_work) -> [StackFrame] {
    withUnsafeTemporaryAllocation(of: unwind_frame.self, capacity: Int(UNWIND_FRAMES_MAX)) { room in
      var stack = unwind_stack()
      stack.frames = room.baseAddress
      observer_swift_task_stack(work.task, &stack)
      var waiters = work.waiters
      observer_swift_task_waiters(&waiters, &stack)
      // SAFETY: `count` of them have been written.
      return room.prefix(Int(stack.count)).compactMap { frame in
        FrameKind(rawValue: UInt8(truncatingIfNeeded: frame.kind)).map { StackFrame(RuntimeAddress(frame.address), $0) }
      }
    }
  }
}

/// Where a task is.
struct TaskWhereabouts {
  enum State: String {
    case runs = "its task runs"
    case isReady = "its task is ready, and waits for a thread"
    case isSuspended = "its task is suspended"
    case hasEnded = "its task has ended without it"
  }

  var state: State
  /// Where it goes on, and who awaits that; none while it runs.
  var frames: [StackFrame] = []
}

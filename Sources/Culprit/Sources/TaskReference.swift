import CCulpritObserver
import CCulpritUnwind
import CulpritStallRecord

struct FollowedTask {
  private let address: UInt64
  private let id: UInt32

  static var current: FollowedTask? {
    let address = TaskProbe.current
    guard address != 0 else { return nil }
    TaskProbe.shared.startInTask()
    return FollowedTask(address, observer_swift_task_id(address))
  }

  init(_ address: UInt64, _ id: UInt32) { (self.address, self.id) = (address, id) }

  init?(on threadID: Int32) {
    let address = observer_swift_task_current(threadID)
    guard address != 0 else { return nil }
    self.init(address, observer_swift_task_id(address))
  }

  /// Empty if the task has no label or has ended.
  var label: String {
    var label = observer_label()
    observer_swift_task_known_label(address, id, &label)
    return label.string
  }

  /// `nil` if the task layout is unknown.
  var whereabouts: TaskReference? {
    guard TaskProbe.shared.hasFound else { return nil }
    var work = observer_task_work()
    observer_swift_task_find(address, id, 0, 0, &work)
    switch work.state {
    case OBSERVER_TASK_RUNNING: return TaskReference(state: .runs, threadID: work.tid)
    case OBSERVER_TASK_ENQUEUED: return TaskReference(state: .isReady, frames: frames(work))
    case OBSERVER_TASK_SUSPENDED: return TaskReference(state: .isSuspended, frames: frames(work))
    default: return TaskReference(state: .hasEnded)
    }
  }

  private func frames(_ work: observer_task_work) -> [StackFrame] {
    withUnsafeTemporaryAllocation(of: unwind_frame.self, capacity: Int(UNWIND_FRAMES_MAX)) { room in
      var stack = unwind_stack()
      stack.frames = room.baseAddress
      observer_swift_task_stack(work.task, &stack)
      var waiters = work.waiters
      observer_swift_task_waiters(&waiters, &stack)
      // SAFETY: the first `count` frames have been written.
      return room.prefix(Int(stack.count)).compactMap { frame in
        FrameKind(rawValue: UInt8(truncatingIfNeeded: frame.kind)).map { StackFrame(RuntimeAddress(frame.address), $0) }
      }
    }
  }
}

struct TaskReference {
  enum State: String {
    case runs = "its task runs"
    case isReady = "its task is enqueued"
    case isSuspended = "its task is suspended"
    case hasEnded = "its task has ended"
  }

  var state: State
  /// 0 if none is known.
  var threadID: Int32 = 0
  /// The function in which the task resumes, then its awaiting callers; empty while it runs.
  var frames: [StackFrame] = []
}

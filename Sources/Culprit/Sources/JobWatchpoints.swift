import CCulpritLinux
import Glibc

/// Tells whether a thread has gone on to another job since, or its task has come to where it could be suspended.
///
/// The first the runtime notes in the word that names the thread's task. The second it notes in the task, where that says how
/// it resumes, also where the task then goes on at once.
struct JobWatchpoints: @unchecked Sendable {
  // SAFETY: what the kernel writes to is only read.
  private var job = clinux_watchpoint()
  private var pause = clinux_watchpoint()
  /// The task that is watched; 0: nothing is.
  private var task: UInt64 = 0

  /// Where a task says how it resumes: the first word behind `Job` that is the runtime's to write (`ResumeTask` of
  /// include/swift/ABI/Task.h).
  static let resumption: UInt64 = 56

  /// Whether there has been either since they were set for `task`; `nil` when they are not.
  func areHit(_ task: UInt64) -> Bool? {
    guard self.task != 0 else { return nil }
    if task != self.task { return true }
    return withUnsafePointer(to: job) { clinux_watchpoint_is_hit($0) }
      || withUnsafePointer(to: pause) { clinux_watchpoint_is_hit($0) }
  }

  /// Why the kernel refuses watchpoints in this process; `nil` where it does not.
  static let refusal: Int32? = {
    var watchpoints = JobWatchpoints()
    defer { watchpoints.clear() }
    // No thread writes to these words.
    let words = UnsafeMutablePointer<UInt64>.allocate(capacity: Int(resumption) / 8 + 1)
    defer { words.deallocate() }
    let address = UInt64(UInt(bitPattern: words))
    let error = watchpoints.set(clinux_task_self(), address, at: address)
    return refusals.contains(error) ? error : nil
  }()

  /// Errors that last, unlike those for a thread that has ended, or for registers that a debugger uses.
  static let refusals: Set<Int32> = [EACCES, EPERM, ENOSYS, ENOENT, EOPNOTSUPP, ENODEV, EINVAL]

  /// Watches thread `id`, which has the address of its `task` at `place`. Returns 0 or an errno value.
  mutating func set(_ id: Int32, _ task: UInt64, at place: UInt64) -> Int32 {
    clear()
    var error = clinux_watchpoint_set(&job, id, place)
    if error == 0 { error = clinux_watchpoint_set(&pause, id, task &+ Self.resumption) }
    if error == 0 { self.task = task } else { clear() }
    return error
  }

  /// Watches no more.
  mutating func clear() {
    clinux_watchpoint_clear(&job)
    clinux_watchpoint_clear(&pause)
    task = 0
  }
}

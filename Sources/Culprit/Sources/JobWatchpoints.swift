import CCulpritLinux
import Glibc

/// Hardware watchpoints that detect whether a thread has begun another job or its task has reached a suspension point.
///
/// At each job, the runtime writes the current task to a word of the thread. At each suspension point, even one without
/// a wait, it writes the resume function to the task.
struct JobWatchpoints: @unchecked Sendable {
  // SAFETY: the memory that the kernel writes is only read.
  private var job = clinux_watchpoint()
  private var pause = clinux_watchpoint()
  /// The watched task; 0: none.
  private var task: UInt64 = 0

  /// Offset of a task's resume function, the first word after `Job` that the runtime owns (`ResumeTask` in
  /// include/swift/ABI/Task.h).
  static let resumption: UInt64 = 56

  /// Returns whether a watchpoint was hit or `task` is new; `nil` if no watchpoint is set.
  func wereHit(_ task: UInt64) -> Bool? {
    guard self.task != 0 else { return nil }
    if task != self.task { return true }
    return withUnsafePointer(to: job) { clinux_watchpoint_is_hit($0) }
      || withUnsafePointer(to: pause) { clinux_watchpoint_is_hit($0) }
  }

  /// The permanent error of a first attempt; `nil` if watchpoints work.
  static let refusal: Int32? = {
    var watchpoints = JobWatchpoints()
    defer { watchpoints.clear() }
    let words = UnsafeMutablePointer<UInt64>.allocate(capacity: Int(resumption) / 8 + 1)
    defer { words.deallocate() }
    let address = UInt64(UInt(bitPattern: words))
    let error = watchpoints.set(clinux_task_self(), address, at: address)
    return refusals.contains(error) ? error : nil
  }()

  /// Permanent errors, unlike those of an ended thread or of registers in use by a debugger.
  static let refusals: Set<Int32> = [EACCES, EPERM, ENOSYS, ENOENT, EOPNOTSUPP, ENODEV, EINVAL]

  /// Watches the word of thread `id` at `place`, which holds the address of `task`. Returns 0 or an errno value.
  mutating func set(_ id: Int32, _ task: UInt64, at place: UInt64) -> Int32 {
    clear()
    var error = clinux_watchpoint_set(&job, id, place)
    if error == 0 { error = clinux_watchpoint_set(&pause, id, task &+ Self.resumption) }
    if error == 0 { self.task = task } else { clear() }
    return error
  }

  mutating func clear() {
    clinux_watchpoint_clear(&job)
    clinux_watchpoint_clear(&pause)
    task = 0
  }
}

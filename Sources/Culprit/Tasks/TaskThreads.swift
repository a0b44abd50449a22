import CCulpritLinux
import CCulpritObserver

/// Which threads of the process run tasks, read from outside.
struct TaskThreads: ~Copyable {
  /// A thread that runs a task.
  struct Running: Equatable {
    var threadID: Int32
    /// The task's address.
    var task: UInt64
    var tracking: TaskLayout.Tracking
  }

  /// So many threads are looked at.
  private static let threadsMax = 4096

  private let threads = UnsafeMutablePointer<clinux_thread_pointer>.allocate(capacity: threadsMax)

  deinit {
    // SAFETY: it was allocated above, and nobody else has it.
    threads.deallocate()
  }

  /// The threads that run a task now, by what `layout` says.
  func running(_ layout: TaskLayout) -> [Running] {
    let count = clinux_thread_pointer_list(threads, Self.threadsMax)
    var found: [Running] = []
    for index in 0..<count {
      // SAFETY: `count` of them have been written.
      let thread = threads[index]
      var (task, tracking): (UInt64, UInt64) = (0, 0)
      guard clinux_memory_read(thread.pointer &+ UInt64(bitPattern: layout.task), &task, 8), task != 0,
        clinux_memory_read(thread.pointer &+ UInt64(bitPattern: layout.tracking), &tracking, 8), tracking != 0,
        let tracked = TaskLayoutSearch.tracking(at: tracking),
        // What was read was that thread's.
        clinux_thread_pointer_is(thread.pointer, thread.tid)
      else { continue }
      found.append(Running(threadID: thread.tid, task: task, tracking: tracked))
    }
    return found
  }
}

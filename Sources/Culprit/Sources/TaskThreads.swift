import CCulpritLinux
import CCulpritObserver
import Glibc

/// Which threads of the process run tasks, read from outside.
struct TaskThreads: ~Copyable {
  /// A thread that runs a task.
  struct Running: Equatable {
    var threadID: Int32
    /// The task's address.
    var task: UInt64
    /// Where the thread has that.
    var place: UInt64
    var tracking: TaskLayout.Tracking
  }

  /// So many threads are looked at.
  private static let threadsMax = 4096
  /// After so many looks threads are listed again, whatever the number of threads is.
  private static let looksMax = 4

  private let threads = UnsafeMutablePointer<clinux_thread_pointer>.allocate(capacity: threadsMax)
  private var count = 0
  /// How many threads the process had when they were listed; 0: they are to be listed.
  private var listed: UInt = 0
  private var looks = 0

  deinit {
    // SAFETY: it was allocated above, and nobody else has it.
    threads.deallocate()
  }

  /// The threads that run a task now, by what `layout` says.
  mutating func running(_ layout: TaskLayout) -> [Running] {
    listIfNeeded()
    var found: [Running] = []
    for index in 0..<count {
      // SAFETY: `count` of them have been written.
      let thread = threads[index]
      let place = thread.pointer &+ UInt64(bitPattern: layout.task)
      guard let (task, tracking) = Self.words(of: thread.pointer, layout) else {
        // It has ended, with its stack.
        listed = 0
        continue
      }
      guard task != 0, tracking != 0, let tracked = TaskLayoutSearch.tracking(at: tracking) else { continue }
      // What was read was that thread's.
      guard clinux_thread_pointer_is(thread.pointer, thread.tid) else {
        listed = 0
        continue
      }
      found.append(Running(threadID: thread.tid, task: task, place: place, tracking: tracked))
    }
    return found
  }

  /// The words that the thread with this thread pointer has at the places of `layout`; `nil` when they cannot be read.
  private static func words(of pointer: UInt64, _ layout: TaskLayout) -> (task: UInt64, tracking: UInt64)? {
    let first = min(layout.task, layout.tracking)
    let length = Int(max(layout.task, layout.tracking) - first) + 8
    var words: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0, 0, 0, 0)
    // They are beside each other, and one call reads both.
    if length <= MemoryLayout.size(ofValue: words) {
      guard clinux_memory_read(pointer &+ UInt64(bitPattern: first), &words, length) else { return nil }
      return withUnsafeBytes(of: words) { bytes in
        (
          bytes.loadUnaligned(fromByteOffset: Int(layout.task - first), as: UInt64.self),
          bytes.loadUnaligned(fromByteOffset: Int(layout.tracking - first), as: UInt64.self)
        )
      }
    }
    var (task, tracking): (UInt64, UInt64) = (0, 0)
    guard clinux_memory_read(pointer &+ UInt64(bitPattern: layout.task), &task, 8),
      clinux_memory_read(pointer &+ UInt64(bitPattern: layout.tracking), &tracking, 8)
    else { return nil }
    return (task, tracking)
  }

  /// Lists the threads when there may be others.
  private mutating func listIfNeeded() {
    var information = stat()
    // A directory has as many links as it has directories in it, and two.
    let present = stat("/proc/self/task", &information) == 0 ? UInt(information.st_nlink) : 0
    looks += 1
    guard present != listed || present == 0 || looks >= Self.looksMax else { return }
    count = clinux_thread_pointer_list(threads, Self.threadsMax)
    (listed, looks) = (present, 0)
  }

  /// What `thread`, which was running `task`, shows at this moment.
  static func look(_ thread: Int32, _ task: UInt64, at place: UInt64) -> JobTracker.Look {
    var (present, words): (UInt64, [UInt64]) = (0, Array(repeating: 0, count: wordsRead))
    var look = JobTracker.Look(time: clinux_clock_ns(), task: 0)
    look.used = clinux_clock_thread_cpu_ns(thread)
    guard clinux_memory_read(task, &words, 8 * wordsRead), clinux_memory_read(place, &present, 8), present == task
    else {
      return look
    }
    look.readTime = clinux_clock_ns()
    look.task = task
    look.words = [words[2], words[3], words[7], words[8]]
    look.priority = UInt8(truncatingIfNeeded: words[4] >> 8)
    return look
  }

  /// A task begins with what its object is, what the scheduler needs, its flags, and where it resumes: `Job` and `AsyncTask` of
  /// include/swift/ABI/Task.h.
  private static let wordsRead = 9
}

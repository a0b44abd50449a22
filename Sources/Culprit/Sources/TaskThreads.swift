import CCulpritLinux
import Glibc

/// The threads that run tasks, found in the memory of all threads.
struct TaskThreads: ~Copyable {
  struct Running: Equatable {
    var threadID: Int32
    var task: UInt64
    /// The address of the thread's word that holds `task`.
    var place: UInt64
    var tracking: TaskLayout.Tracking
  }

  private static let threadsMax = 4096
  /// Rounds after which the threads are listed again, even if their number is unchanged.
  private static let roundsMax = 4

  private let threads = UnsafeMutablePointer<clinux_thread_pointer>.allocate(capacity: threadsMax)
  private var count = 0
  /// Number of threads at the last listing; 0: they must be listed again.
  private var listed: UInt = 0
  private var rounds = 0

  deinit {
    // SAFETY: the memory was allocated above and has no other owner.
    threads.deallocate()
  }

  mutating func running(_ layout: TaskLayout) -> [Running] {
    listIfNeeded()
    var found: [Running] = []
    for index in 0..<count {
      // SAFETY: the first `count` entries have been written.
      let thread = threads[index]
      let place = thread.pointer &+ UInt64(bitPattern: layout.task)
      guard let (task, tracking) = Self.words(of: thread.pointer, layout) else {
        // The thread has ended and its stack is unmapped.
        listed = 0
        continue
      }
      guard task != 0, tracking != 0, let tracked = TaskLayoutSearch.tracking(at: tracking) else { continue }
      // Another thread might have taken over the memory of an ended one.
      guard clinux_thread_pointer_is(thread.pointer, thread.tid) else {
        listed = 0
        continue
      }
      found.append(Running(threadID: thread.tid, task: task, place: place, tracking: tracked))
    }
    return found
  }

  private static func words(of pointer: UInt64, _ layout: TaskLayout) -> (task: UInt64, tracking: UInt64)? {
    let first = min(layout.task, layout.tracking)
    let length = Int(max(layout.task, layout.tracking) - first) + 8
    var words: (UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0, 0, 0, 0)
    // The words are usually adjacent, so one call reads both.
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

  private mutating func listIfNeeded() {
    var information = stat()
    // The link count of a directory is the number of its subdirectories plus two.
    let present = stat("/proc/self/task", &information) == 0 ? UInt(information.st_nlink) : 0
    rounds += 1
    guard present != listed || present == 0 || rounds >= Self.roundsMax else { return }
    count = clinux_thread_pointer_list(threads, Self.threadsMax)
    (listed, rounds) = (present, 0)
  }

  /// Samples `thread`, which was running `task`.
  static func observe(_ thread: Int32, _ task: UInt64, at place: UInt64) -> JobTracker.Observation {
    var (present, words): (UInt64, [UInt64]) = (0, Array(repeating: 0, count: wordsRead))
    var observation = JobTracker.Observation(time: clinux_clock_ns(), task: 0)
    observation.used = clinux_clock_thread_cpu_ns(thread)
    guard clinux_memory_read(task, &words, 8 * wordsRead), clinux_memory_read(place, &present, 8), present == task
    else {
      return observation
    }
    observation.readTime = clinux_clock_ns()
    observation.task = task
    observation.resumption = words[7]
    observation.words = [words[2], words[3], words[7], words[8]]
    observation.priority = UInt8(truncatingIfNeeded: words[4] >> 8)
    return observation
  }

  /// Words at the beginning of a task: object header, scheduler data, flags, and resume function (`Job` and `AsyncTask`
  /// in include/swift/ABI/Task.h).
  private static let wordsRead = 9
}

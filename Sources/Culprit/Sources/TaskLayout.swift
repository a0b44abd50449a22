import CCulpritLinux
import CCulpritObserver

/// Offsets of a thread's current task and executor tracking in the thread-local storage of Swift's runtime.
///
/// Tasks with known addresses reveal the undocumented layout. An offset that any thread contradicts is discarded.
struct TaskLayout: Hashable, Sendable {
  /// Offsets from the thread pointer.
  var task: Int64
  var tracking: Int64

  /// The serial executor, by identity and implementation, and the task executor (`ExecutorTrackingInfo`).
  struct Tracking: Equatable {
    var executor: UInt64
    var implementation: UInt64
    var taskExecutor: UInt64

    /// Whether the pool's threads run the task: for no actor, or for an actor without a custom executor.
    var isPool: Bool { implementation == 0 && taskExecutor == 0 }

    static let words = 3
  }
}

final class TaskLayoutSearch: Sendable {
  private enum State {
    case searching(Seen)
    case found(TaskLayout)
    case failed
  }

  /// The offsets on which all tasks so far agree.
  private struct Seen {
    var tasks: Set<Int64>?
    var trackings: Set<Int64>?
    var threads: Set<Int32> = []
    var count = 0
  }

  private let state = Mutex(State.searching(Seen()))
  /// The searched offsets; `nil`: the search is impossible.
  private let storage: Range<Int64>?

  /// Number of tasks that suffice if they ran on one thread. On two threads, two tasks can suffice.
  private static let countMax = 8

  /// Takes the loader's lock.
  init() {
    var (begin, end): (Int64, Int64) = (0, 0)
    let isThere = clinux_thread_pointer_start() == 0 && observer_swift_task_storage(&begin, &end) && begin < end
    storage = isThere && end - begin <= Self.storageMax ? begin..<end : nil
    if storage == nil { state.withLock { $0 = .failed } }
  }

  /// For tests.
  init(in storage: Range<Int64>) { self.storage = storage }

  /// Limit of the storage. The runtime alone has 32 bytes; a statically linked executable has more.
  private static let storageMax: Int64 = 1 << 16

  /// `nil` while the layout is unknown.
  var found: TaskLayout? {
    state.withLock { state in
      if case .found(let layout) = state { return layout }
      return nil
    }
  }

  var hasFailed: Bool {
    state.withLock { state in
      if case .failed = state { return true }
      return false
    }
  }

  /// Adds the offsets found in the calling task, which must run on the pool without an actor.
  func observeCurrentTask() {
    guard let storage, isSearching else { return }
    let current = TaskProbe.current
    let own = clinux_thread_pointer_own()
    // The executor tracking lies on this thread's stack, in an outer frame.
    let inner = withUnsafeBytes(of: own) { UInt64(UInt(bitPattern: $0.baseAddress)) }
    var (tasks, trackings): (Set<Int64>, Set<Int64>) = ([], [])
    for offset in stride(from: (storage.lowerBound + 7) & ~7, through: storage.upperBound - 8, by: 8) {
      // SAFETY: the storage belongs to the calling thread.
      guard let word = Self.word(at: own &+ UInt64(bitPattern: offset)), word != 0 else { continue }
      if word == current {
        tasks.insert(offset)
      } else if word > inner, word < own, word % 8 == 0, Self.tracking(at: word)?.isPool == true {
        trackings.insert(offset)
      }
    }
    add(tasks, trackings, clinux_task_self())
  }

  private var isSearching: Bool {
    state.withLock { state in
      if case .searching = state { return true }
      return false
    }
  }

  private func add(_ newTasks: Set<Int64>, _ newTrackings: Set<Int64>, _ thread: Int32) {
    state.withLock { state in
      guard case .searching(let old) = state else { return }
      var seen = old
      seen.tasks = old.tasks?.intersection(newTasks) ?? newTasks
      seen.trackings = old.trackings?.intersection(newTrackings) ?? newTrackings
      seen.threads.insert(thread)
      seen.count += 1
      guard let task = seen.tasks?.first, let tracking = seen.trackings?.first else {
        state = .failed
        return
      }
      let isOnly = seen.tasks?.count == 1 && seen.trackings?.count == 1
      if isOnly, seen.threads.count > 1 || seen.count >= Self.countMax {
        state = .found(TaskLayout(task: task, tracking: tracking))
      } else {
        state = seen.count < 2 * Self.countMax ? .searching(seen) : .failed
      }
    }
  }

  /// `address` must be in the calling thread's own memory.
  private static func word(at address: UInt64) -> UInt64? {
    UnsafePointer<UInt64>(bitPattern: UInt(address))?.pointee
  }

  static func tracking(at address: UInt64) -> TaskLayout.Tracking? {
    var words: (UInt64, UInt64, UInt64) = (0, 0, 0)
    guard clinux_memory_read(address, &words, MemoryLayout.size(ofValue: words)) else { return nil }
    return TaskLayout.Tracking(executor: words.0, implementation: words.1, taskExecutor: words.2)
  }
}

import CCulpritLinux
import CCulpritObserver
import Synchronization

/// Where Swift's runtime keeps the current task of a thread, and what runs it.
///
/// That is nowhere documented. So it is found out inside of tasks, whose address is known there: where in the runtime's
/// thread-local storage is it? A place that one thread has shown and another contradicts is none.
struct TaskLayout: Hashable, Sendable {
  /// Bytes from a thread's thread pointer: of the address of its current task, and of that of what the runtime tracks
  /// about the executor.
  var task: Int64
  var tracking: Int64

  /// What is tracked (`ExecutorTrackingInfo`): the serial executor, by identity and implementation, and the task
  /// executor.
  struct Tracking: Equatable {
    var executor: UInt64
    var implementation: UInt64
    var taskExecutor: UInt64

    /// Whether it is the pool's threads that run the task: for no actor, or for one that has no executor of its own.
    var isPool: Bool { implementation == 0 && taskExecutor == 0 }

    static let words = 3
  }
}

/// Finds out the ``TaskLayout`` by tasks that run.
final class TaskLayoutSearch: Sendable {
  private enum State {
    case searching(Seen)
    case found(TaskLayout)
    case failed
  }

  /// What tasks have shown so far: the places that all of them agree on.
  private struct Seen {
    var tasks: Set<Int64>?
    var trackings: Set<Int64>?
    var threads: Set<Int32> = []
    var count = 0
  }

  private let state = Mutex(State.searching(Seen()))
  /// Where to look; `nil`: nowhere.
  private let storage: Range<Int64>?

  /// So many tasks are looked at: fewer tell, when they ran on two threads.
  private static let countMax = 8

  /// A search in the storage of this process's runtime. On the calling thread the loader's lock is taken.
  init() {
    var (begin, end): (Int64, Int64) = (0, 0)
    let isThere = clinux_thread_pointer_start() == 0 && observer_swift_task_storage(&begin, &end) && begin < end
    storage = isThere && end - begin <= Self.storageMax ? begin..<end : nil
    if storage == nil { state.withLock { $0 = .failed } }
  }

  /// A search between these bytes from the thread pointer, for tests.
  init(in storage: Range<Int64>) { self.storage = storage }

  /// The runtime alone has 32 bytes; an executable that it is linked into statically has more.
  private static let storageMax: Int64 = 1 << 16

  /// What has been found; `nil` when nothing has, yet or at all.
  var found: TaskLayout? {
    state.withLock { state in
      if case .found(let layout) = state { return layout }
      return nil
    }
  }

  /// Whether it is known that there is nothing to be found.
  var hasFailed: Bool {
    state.withLock { state in
      if case .failed = state { return true }
      return false
    }
  }

  /// To be called inside of a task that the pool's threads run for no actor.
  func lookAtCurrentTask() {
    guard let storage, isSearching else { return }
    let current = TaskProbe.current
    let own = clinux_thread_pointer_own()
    // What the runtime tracks lies on this thread's stack, in a frame outside of this one.
    let inner = withUnsafeBytes(of: own) { UInt64(UInt(bitPattern: $0.baseAddress)) }
    var (tasks, trackings): (Set<Int64>, Set<Int64>) = ([], [])
    for offset in stride(from: (storage.lowerBound + 7) & ~7, through: storage.upperBound - 8, by: 8) {
      // SAFETY: the storage is this thread's own.
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

  /// Adds the places that the task of `thread` has shown.
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

  /// What is at `address`, which must be this thread's own memory.
  private static func word(at address: UInt64) -> UInt64? {
    UnsafePointer<UInt64>(bitPattern: UInt(address))?.pointee
  }

  /// What is tracked at `address`; `nil` when it cannot be read.
  static func tracking(at address: UInt64) -> TaskLayout.Tracking? {
    var words: (UInt64, UInt64, UInt64) = (0, 0, 0)
    guard clinux_memory_read(address, &words, MemoryLayout.size(ofValue: words)) else { return nil }
    return TaskLayout.Tracking(executor: words.0, implementation: words.1, taskExecutor: words.2)
  }
}

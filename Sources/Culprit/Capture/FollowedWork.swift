import CCulpritLinux
import CCulpritObserver

/// The work items that are followed, and who works on each: what one look at a thread has seen is told of all that the
/// thread works on.
///
/// A section inside a loop's turn, or a request on a loop, is one stall with two views. Looked at for each of them, the
/// thread would be looked at twice as often.
struct FollowedWork: ~Copyable {
  /// One of them, of which a single thread or task does the work.
  struct Item: BitwiseCopyable {
    var index: UInt32 = 0
    var item: UInt64 = 0
    var generation: UInt32 = 0
    /// Who works on it, where the begin says so; else where that is told, or whose task does.
    var threadID: Int32 = 0
    var ownerTIDAddress: UInt64 = 0
    var queueHeadAddress: UInt64 = 0
    var task: UInt64 = 0
    var taskID: UInt32 = 0

    // Written out because the compiler checks @_noLocks file by file, and does not see into another file's implicit
    // one.
    @_noLocks init() {}
  }

  private let sampling: UnsafeMutablePointer<observer_sampling>
  private let slots: UnsafeMutablePointer<observer_slot>
  private let items: UnsafeMutablePointer<Item>
  private(set) var count = 0
  /// How much earlier than the truth a coarse begin can be.
  private let coarseDoubt = clinux_clock_coarse_doubt_ns()

  init(_ sampling: UnsafeMutablePointer<observer_sampling>, _ slots: UnsafeMutablePointer<observer_slot>) {
    self.sampling = sampling
    self.slots = slots
    // Memory that nobody uses is not resident.
    items = .allocate(capacity: Int(OBSERVER_SLOTS_MAX))
  }

  deinit {
    // SAFETY: it was allocated by this value's initializer and nobody else has it.
    items.deallocate()
  }

  /// Finds them among the first `used` slots, and adds them to `queue`, which is emptied first.
  ///
  /// - Parameters:
  ///   - used: The number of slots.
  ///   - looks: The last look at each slot's work item.
  ///   - queue: The queue that receives the work items whose samples are due.
  @_noLocks mutating func find(
    _ used: UInt32,
    _ looks: UnsafeMutablePointer<LastLook>,
    _ queue: inout SampleQueue
  ) {
    count = 0
    queue.removeAll()
    var index: UInt32 = 0
    while index < min(used, UInt32(OBSERVER_SLOTS_MAX)) {
      // A sample that was due for a finished work item is not due for the next one.
      let item = observer_work_item(sampling, index)
      if item == 0 {
        _ = observer_work_take(sampling, index)
      } else if !observer_work_is_due(sampling, index), looks[Int(index)].isSuspended(item) {
        // No thread works on it, as far as is known.
        queue.addSuspended()
      } else {
        add(index, looks, &queue)
      }
      index &+= 1
    }
  }

  @_noLocks private mutating func add(
    _ index: UInt32,
    _ looks: UnsafeMutablePointer<LastLook>,
    _ queue: inout SampleQueue
  ) {
    // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the size of the tables, which outlive this thread.
    let view = observer_slot_read(slots + Int(index))
    let work = observer_work_read(sampling, index)
    guard view.item != 0, view.item == work.item, view.generation == work.generation else {
      // Its end has come, and the monitor will see it.
      _ = observer_work_take(sampling, index)
      return
    }
    let look = looks[Int(index)]
    let isTask = view.owner_kind == OBSERVER_OWNER_TASK
    let worker: SampleQueue.Worker = !isTask ? .thread : look.isSuspended(view.item) ? .suspended : .task
    queue.add(
      index,
      rank: SampleQueue.rank(worker, age: work.age_ns, threshold: view.threshold_ns),
      lastLook: look.time(view.item),
      isDue: observer_work_is_due(sampling, index)
    )
    var one = Item()
    one.index = index
    one.item = view.item
    one.generation = view.generation
    switch view.owner_kind {
    // Of several threads each is looked at in its turn.
    case OBSERVER_OWNERS: return
    case OBSERVER_OWNER_TASK:
      one.task = view.owner_tid_address
      one.taskID = UInt32(truncatingIfNeeded: view.queue_head_address)
    default:
      one.ownerTIDAddress = view.owner_tid_address
      one.queueHeadAddress = view.queue_head_address
      if view.owner_tid_address == 0 { one.threadID = view.thread.map { observer_thread_id($0) } ?? 0 }
    }
    items[count] = one
    count &+= 1
  }

  /// Whether thread `threadID`, which ran `task`, may work on the work item `number`: cheaper than ``target(_:besides:thread:task:at:isHolder:)``,
  /// which asks the kernel.
  @_noLocks func mayBeWork(_ number: Int, _ threadID: Int32, _ task: UInt64) -> Bool {
    let index = items[number].index
    if items[number].task != 0, task != 0 { return items[number].task == task }
    guard items[number].task != 0 || items[number].ownerTIDAddress != 0 else {
      return items[number].threadID == threadID
    }
    return observer_work_tid(sampling, index, items[number].item) == threadID
  }

  /// Which of the work items is served by a look at a thread, too.
  ///
  /// - Parameters:
  ///   - number: Which one is asked about, below `count`.
  ///   - index: The slot whose work item the look was for.
  ///   - threadID: The thread that was looked at; of a look at a holder, the one that waits for it.
  ///   - task: The task that the thread ran then; 0: none that is known.
  ///   - time: When that was.
  ///   - isHolder: Whether it was a look at a holder.
  /// - Returns: What the sample is to be told of; `nil` where the thread does not work on that one.
  @_noLocks func target(
    _ number: Int,
    besides index: Int,
    thread threadID: Int32,
    task: UInt64,
    at time: UInt64,
    isHolder: Bool
  ) -> ThreadReader.Target? {
    let one = items[number]
    guard Int(one.index) != index, threadID != 0, isWork(of: one, threadID, isHolder ? 0 : task),
      // What began since was not looked at.
      time >= one.item &+ observer_slot_doubt_ns(one.item, coarseDoubt),
      // SAFETY: as in add(_:).
      observer_slot_work_item(slots + Int(one.index)) == one.item
    else { return nil }
    var target = ThreadReader.Target()
    target.index = Int(one.index)
    // SAFETY: as in add(_:).
    target.slot = UnsafePointer(slots + Int(one.index))
    target.item = one.item
    target.generation = one.generation
    target.threadID = threadID
    target.ownerTIDAddress = one.ownerTIDAddress
    target.queueHeadAddress = one.queueHeadAddress
    (target.task, target.taskID) = (one.task, one.taskID)
    (target.ownTask, target.ownTaskID) = (one.task, one.taskID)
    if one.task != 0 { target.isAnother = observer_work_tid(sampling, one.index, one.item) != threadID }
    return target
  }

  /// Whether thread `threadID`, which runs `task`, works on `one`; 0: it may run any.
  @_noLocks private func isWork(of one: Item, _ threadID: Int32, _ task: UInt64) -> Bool {
    if one.task != 0 {
      guard task != 0 else { return observer_work_tid(sampling, one.index, one.item) == threadID }
      return task == one.task && observer_swift_task_is(task, one.taskID)
    }
    guard one.ownerTIDAddress != 0 else { return one.threadID == threadID }
    // Reading it costs a system call: only of who was seen to work on it.
    return observer_work_tid(sampling, one.index, one.item) == threadID
      && observer_slot_owner(one.ownerTIDAddress) == threadID
  }
}

import CCulpritLinux
import CCulpritObserver

/// The work items under observation, with their threads or tasks.
///
/// One sample of a thread serves all work items that it runs, such as a section inside a loop's turn.
struct FollowedWork: ~Copyable {
  struct Item: BitwiseCopyable {
    var index = 0
    var item: UInt64 = 0
    var generation: UInt32 = 0
    /// The thread recorded at the begin of the work item; 0 if `ownerTIDAddress` or `task` is set.
    var threadID: Int32 = 0
    var ownerTIDAddress: UInt64 = 0
    var queueHeadAddress: UInt64 = 0
    var task: UInt64 = 0
    var taskID: UInt32 = 0

    @_noLocks init() {}
  }

  private let works: WorkTable
  private let slots: SlotTable
  private let items: UnsafeMutablePointer<Item>
  private(set) var count = 0
  private let coarseError = clinux_clock_coarse_error_ns()

  init(_ works: WorkTable, _ slots: SlotTable) {
    self.works = works
    self.slots = slots
    // Untouched memory is not resident.
    items = .allocate(capacity: Int(OBSERVER_SLOTS_MAX))
  }

  deinit {
    // SAFETY: allocated by this value's initializer, and not shared.
    items.deallocate()
  }

  /// Finds the work items of the first `used` slots, and their due samples.
  @_noLocks mutating func find(
    _ used: Int,
    _ lastSamples: UnsafeMutablePointer<LastSample>,
    _ queue: inout SampleQueue
  ) {
    count = 0
    queue.removeAll()
    var index = 0
    while index < used {
      // A due sample of a finished work item must not count for the next work item.
      let item = works[index].item
      if item == 0 {
        works[index].take()
      } else if !works[index].isDue, lastSamples[index].isSuspended(item) {
        queue.addSuspended()
      } else {
        add(index, lastSamples, &queue)
      }
      index &+= 1
    }
  }

  @_noLocks private mutating func add(
    _ index: Int,
    _ lastSamples: UnsafeMutablePointer<LastSample>,
    _ queue: inout SampleQueue
  ) {
    let view = slots[index].read()
    let work = works[index].read()
    guard view.item != 0, view.item == work.item, view.generation == work.generation else {
      works[index].take()
      return
    }
    let last = lastSamples[index]
    let isTask = view.owner_kind == OBSERVER_OWNER_TASK
    let worker: SampleQueue.Worker = !isTask ? .thread : last.isSuspended(view.item) ? .suspended : .task
    queue.add(
      index,
      rank: SampleQueue.rank(worker, age: work.age_ns, threshold: view.limits.threshold_ns),
      lastSample: last.time(view.item),
      isDue: works[index].isDue
    )
    var one = Item()
    one.index = index
    one.item = view.item
    one.generation = view.generation
    switch view.owner_kind {
    // A work item with several threads is sampled thread by thread.
    case OBSERVER_OWNER_THREADS: return
    case OBSERVER_OWNER_TASK: (one.task, one.taskID) = (view.owner.task, view.owner_task_id)
    default:
      one.ownerTIDAddress = view.owner.tid_address
      one.queueHeadAddress = view.queue_head_address
      if one.ownerTIDAddress == 0 { one.threadID = view.thread.map { observer_thread_id($0) } ?? 0 }
    }
    items[count] = one
    count &+= 1
  }

  /// Whether thread `threadID`, which ran `task`, might run work item `number`. Makes no system calls.
  @_noLocks func mayBeWork(_ number: Int, _ threadID: Int32, _ task: UInt64) -> Bool {
    if items[number].task != 0, task != 0 { return items[number].task == task }
    guard items[number].task != 0 || items[number].ownerTIDAddress != 0 else {
      return items[number].threadID == threadID
    }
    return works[items[number].index].thread(of: items[number].item) == threadID
  }

  /// Returns the target with which work item `number` shares a sample; `nil` if thread `threadID` does not run this
  /// work. Task 0: unknown. For a lock owner's sample, `threadID` is the waiting thread.
  @_noLocks func target(
    _ number: Int,
    besides index: Int,
    thread threadID: Int32,
    task: UInt64,
    at time: UInt64,
    isHolder: Bool
  ) -> ThreadReader.Target? {
    let one = items[number]
    guard one.index != index, threadID != 0, isWork(of: one, threadID, isHolder ? 0 : task),
      time >= one.item &+ observer_slot_clock_error_ns(one.item, coarseError),
      slots[one.index].item == one.item
    else { return nil }
    var target = ThreadReader.Target(one.index, slots[one.index], item: one.item, generation: one.generation)
    target.threadID = threadID
    target.ownerTIDAddress = one.ownerTIDAddress
    target.queueHeadAddress = one.queueHeadAddress
    (target.task, target.taskID) = (one.task, one.taskID)
    (target.ownTask, target.ownTaskID) = (one.task, one.taskID)
    if one.task != 0 { target.threadChanged = works[one.index].thread(of: one.item) != threadID }
    return target
  }

  @_noLocks private func isWork(of one: Item, _ threadID: Int32, _ task: UInt64) -> Bool {
    if one.task != 0 {
      guard task != 0 else { return works[one.index].thread(of: one.item) == threadID }
      return task == one.task && observer_swift_task_is(task, one.taskID)
    }
    guard one.ownerTIDAddress != 0 else { return one.threadID == threadID }
    // Reading the owner costs a system call.
    return works[one.index].thread(of: one.item) == threadID
      && observer_slot_owner(one.ownerTIDAddress) == threadID
  }
}

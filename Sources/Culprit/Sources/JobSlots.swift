import CCulpritLinux
import CCulpritObserver

/// The slots for long jobs, one for each pool thread in such a job.
struct JobSlots: @unchecked Sendable {
  // SAFETY: the words are never freed, and only the owner of the slots writes them.
  private struct Slot {
    var lease: SlotRegistry.Lease
    /// Index of the word with the thread's id.
    var place: Int
    /// Whether a sample has confirmed that the job has lasted for the threshold.
    var isConfirmed = false
    var isDeclarable = false
  }

  private var slots: [Int32: Slot] = [:]
  /// Thread ids to which the slots refer; never freed.
  private var words: UnsafeMutablePointer<UInt32>?
  private var free = Set(0..<Int(OBSERVER_OWNERS_MAX))

  /// Marks that thread `id` has been in one job since `began` at the latest. Returns the job's suspicion time in
  /// nanoseconds; `nil` if no slot is free.
  ///
  /// The job must be confirmed before it can become a stall.
  mutating func begin(_ id: Int32, since began: UInt64, _ lease: (String) -> SlotRegistry.Lease?) -> UInt64? {
    guard var slot = slots[id] ?? make(id, lease) else { return nil }
    (slot.isConfirmed, slot.isDeclarable) = (false, false)
    slots[id] = slot
    observer_slot_defer(slot.lease.slot, true)
    let now = clinux_clock_ns()
    slot.lease.slot.begin(since: began, unwatched: now > began ? now &- began : 0)
    return slot.lease.slot.suspicion
  }

  private mutating func make(_ id: Int32, _ lease: (String) -> SlotRegistry.Lease?) -> Slot? {
    releaseSlotsOfEndedThreads()
    let table = words ?? .allocate(capacity: Int(OBSERVER_OWNERS_MAX))
    if words == nil { table.initialize(repeating: 0, count: Int(OBSERVER_OWNERS_MAX)) }
    words = table
    guard let place = free.min(), let lease = lease("pool thread \(place + 1)") else { return nil }
    free.remove(place)
    table[place] = UInt32(bitPattern: id)
    observer_slot_set_addresses(lease.slot, UInt64(UInt(bitPattern: table + place)), 0)
    let slot = Slot(lease: lease, place: place)
    slots[id] = slot
    return slot
  }

  mutating func end(_ id: Int32) {
    if let slot = slots[id] { slot.lease.slot.end() }
  }

  /// Confirms that the job of thread `id` lasted until `time`. A mark proves nothing: the job might have ended while
  /// the watcher had no CPU.
  mutating func confirm(_ id: Int32, until time: UInt64) {
    guard let slot = slots[id] else { return }
    let began = slot.lease.slot.item
    guard began != 0, time >= began, time - began >= slot.lease.slot.threshold else { return }
    slots[id]?.isConfirmed = true
  }

  func nextConfirmation(after now: UInt64) -> UInt64 {
    slots.values.filter { !$0.isConfirmed }.compactMap { slot -> UInt64? in
      let began = slot.lease.slot.item
      let (time, overflow) = began.addingReportingOverflow(slot.lease.slot.threshold)
      return began != 0 && !overflow && time > now ? time : nil
    }.min() ?? .max
  }

  /// Lets the monitor declare stalls of confirmed jobs, except on the threads `ids`. Returns whether a job has become
  /// declarable.
  mutating func deferStalls(of ids: Set<Int32>) -> Bool {
    var isNew = false
    for (id, slot) in slots where slot.isConfirmed && !slot.isDeclarable && !ids.contains(id) {
      slots[id]?.isDeclarable = true
      observer_slot_defer(slot.lease.slot, false)
      isNew = true
    }
    return isNew
  }

  /// Ends the jobs of the threads `ids` that are not stalled. Returns the threads whose jobs are stalled.
  mutating func endAllButStalled(of ids: Set<Int32>) -> Set<Int32> {
    let now = clinux_clock_ns()
    var stalled: Set<Int32> = []
    for (id, slot) in slots where ids.contains(id) {
      if slot.lease.slot.read().isStalled(at: now) {
        stalled.insert(id)
      } else {
        slot.lease.slot.end()
      }
    }
    return stalled
  }

  mutating func endAll() { for id in Array(slots.keys) { release(id) } }

  /// A thread whose CPU time reads as 0 no longer exists.
  private mutating func releaseSlotsOfEndedThreads() {
    for (id, slot) in slots
    where slot.lease.slot.item == 0 && clinux_clock_thread_cpu_ns(id) == 0 { release(id) }
  }

  private mutating func release(_ id: Int32) {
    guard let slot = slots.removeValue(forKey: id) else { return }
    words?[slot.place] = 0
    SlotRegistry.shared.end(slot.lease)
    free.insert(slot.place)
  }
}

extension observer_slot_snapshot {
  /// A work item can begin later than `now`.
  func isStalled(at now: UInt64) -> Bool { item != 0 && now &- min(item, now) >= limits.threshold_ns }
}

import CCulpritLinux
import CCulpritObserver

/// The slots that jobs are marked in, one for each thread of a pool that has been in one for a while.
struct JobSlots: @unchecked Sendable {
  // SAFETY: the words are never freed, and written by who has the slots.
  private struct Slot {
    var lease: SlotRegistry.Lease
    /// Where the slot has its thread's id.
    var place: Int
    /// Whether a look has shown that the job has lasted for the threshold.
    var isConfirmed = false
    /// Whether the monitor can declare the job a stall.
    var isDeclarable = false
  }

  private var slots: [Int32: Slot] = [:]
  /// What slots refer to: never freed.
  private var words: UnsafeMutablePointer<UInt32>?
  /// The places that no slot has.
  private var free = Set(0..<Int(OBSERVER_OWNERS_MAX))

  /// Marks that thread `id` has been in one job since `began`. The job is no stall before it is confirmed.
  ///
  /// - Parameters:
  ///   - id: The thread.
  ///   - began: When the job began at the latest, on the observer's clock.
  ///   - lease: Leases a slot for the jobs of one thread, which is called so.
  /// - Returns: After what time the job is suspected; `nil` when there is no slot for it.
  mutating func begin(_ id: Int32, since began: UInt64, _ lease: (String) -> SlotRegistry.Lease?) -> UInt64? {
    guard var slot = slots[id] ?? make(id, lease) else { return nil }
    (slot.isConfirmed, slot.isDeclarable) = (false, false)
    slots[id] = slot
    observer_slot_defer(slot.lease.slot, true)
    // That it is seen late does not make it younger.
    let now = clinux_clock_ns()
    observer_slot_begin_since(slot.lease.slot, began, now > began ? now &- began : 0)
    return observer_slot_suspicion_ns(slot.lease.slot)
  }

  private mutating func make(_ id: Int32, _ lease: (String) -> SlotRegistry.Lease?) -> Slot? {
    giveBackThoseOfEndedThreads()
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

  /// The job of thread `id` is over, if one was marked.
  mutating func end(_ id: Int32) {
    if let slot = slots[id] { observer_slot_end(slot.lease.slot) }
  }

  /// Confirms that the job of thread `id` went on until `time`. A mark alone is no evidence: the job might have ended
  /// while the watcher had no CPU.
  mutating func confirm(_ id: Int32, until time: UInt64) {
    guard let slot = slots[id] else { return }
    let began = observer_slot_work_item(slot.lease.slot)
    guard began != 0, time >= began, time - began >= observer_slot_threshold_ns(slot.lease.slot) else { return }
    slots[id]?.isConfirmed = true
  }

  /// Returns the first time after `now` at which a look can confirm a job.
  func nextConfirmation(after now: UInt64) -> UInt64 {
    slots.values.filter { !$0.isConfirmed }.compactMap { slot -> UInt64? in
      let began = observer_slot_work_item(slot.lease.slot)
      let (time, overflow) = began.addingReportingOverflow(observer_slot_threshold_ns(slot.lease.slot))
      return began != 0 && !overflow && time > now ? time : nil
    }.min() ?? .max
  }

  /// Lets the monitor declare the confirmed jobs, except those of the threads `ids` that it could not declare before.
  ///
  /// - Returns: Whether it can declare a job that it could not declare before.
  mutating func deferStalls(of ids: Set<Int32>) -> Bool {
    var isNew = false
    for (id, slot) in slots where slot.isConfirmed && !slot.isDeclarable && !ids.contains(id) {
      slots[id]?.isDeclarable = true
      observer_slot_defer(slot.lease.slot, false)
      isNew = true
    }
    return isNew
  }

  /// Ends those jobs of the threads `ids` that are no stalls yet. Returns whose the others are.
  mutating func endAllButStalled(of ids: Set<Int32>) -> Set<Int32> {
    let now = clinux_clock_ns()
    var stalled: Set<Int32> = []
    for (id, slot) in slots where ids.contains(id) {
      if observer_slot_read(slot.lease.slot).isStalled(at: now) {
        stalled.insert(id)
      } else {
        observer_slot_end(slot.lease.slot)
      }
    }
    return stalled
  }

  /// Nothing is marked any more, and the slots are given back.
  mutating func endAll() { for id in Array(slots.keys) { giveBack(id) } }

  /// Threads of a pool come and go. One that has used no processor time is not there.
  private mutating func giveBackThoseOfEndedThreads() {
    for (id, slot) in slots
    where observer_slot_work_item(slot.lease.slot) == 0 && clinux_clock_thread_cpu_ns(id) == 0 { giveBack(id) }
  }

  private mutating func giveBack(_ id: Int32) {
    guard let slot = slots.removeValue(forKey: id) else { return }
    words?[slot.place] = 0
    SlotRegistry.shared.end(slot.lease)
    free.insert(slot.place)
  }
}

extension observer_slot_snapshot {
  /// Whether the work item is old enough for a stall at the time `now`; it may begin later than that.
  func isStalled(at now: UInt64) -> Bool { item != 0 && now &- min(item, now) >= threshold_ns }
}

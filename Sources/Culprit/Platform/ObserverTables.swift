import CCulpritObserver

struct SlotTable {
  private let first: UnsafeMutablePointer<observer_slot>

  @_noLocks init(_ first: UnsafeMutablePointer<observer_slot>) { self.first = first }

  // SAFETY: indices are below OBSERVER_SLOTS_MAX, the size of the table, which is never freed.
  subscript(index: Int) -> UnsafeMutablePointer<observer_slot> { @_noLocks get { first + index } }
}

/// The work items that samplers follow, one for each slot.
struct WorkTable {
  private let first: UnsafeMutablePointer<observer_work>

  @_noLocks init(_ sampling: UnsafeMutablePointer<observer_sampling>) { first = sampling.pointee.work }

  // SAFETY: indices are below OBSERVER_SLOTS_MAX, the size of the table, which outlives its monitor and samplers.
  subscript(index: Int) -> UnsafeMutablePointer<observer_work> { @_noLocks get { first + index } }
}

struct StallTable {
  private let first: UnsafeMutablePointer<observer_stall>

  @_noLocks init(_ first: UnsafeMutablePointer<observer_stall>) { self.first = first }

  // SAFETY: indices are below OBSERVER_SLOTS_MAX, the size of the table, which is never freed.
  subscript(index: Int) -> UnsafeMutablePointer<observer_stall> { @_noLocks get { first + index } }
}

// The members below are documented in observer_slot.h, observer_sampling.h and observer_stall.h.

extension UnsafeMutablePointer where Pointee == observer_slot {
  func begin() { observer_slot_begin(self) }
  @_noLocks func begin(since began: UInt64, unwatched: UInt64) { observer_slot_begin_since(self, began, unwatched) }
  @_noLocks func end() { observer_slot_end(self) }
  @_noLocks func read() -> observer_slot_snapshot { observer_slot_read(self) }
  var item: UInt64 { @_noLocks get { observer_slot_work_item(self) } }
  var thread: UnsafeMutablePointer<observer_thread>? { @_noLocks get { observer_slot_thread(self) } }
  @_noLocks func wantEndTime(of item: UInt64) -> Bool { observer_slot_want_end_time(self, item) }
  var suspicion: UInt64 { observer_slot_suspicion_ns(self) }
  var threshold: UInt64 { observer_slot_threshold_ns(self) }
}

extension UnsafeMutablePointer where Pointee == observer_work {
  @_noLocks func follow(_ view: observer_work_snapshot) { observer_work_follow(self, view) }
  @_noLocks func leave() { observer_work_leave(self) }
  @_noLocks func read() -> observer_work_snapshot { observer_work_read(self) }
  var item: UInt64 { @_noLocks get { observer_work_item(self) } }
  @_noLocks func want() { observer_work_want(self) }
  var isDue: Bool { @_noLocks get { observer_work_is_due(self) } }
  @discardableResult @_noLocks func take() -> Bool { observer_work_take(self) }
  @_noLocks func isAvoided(_ item: UInt64) -> Bool { observer_work_is_avoided(self, item) }
  @_noLocks func setThread(_ tid: Int32, of item: UInt64) { observer_work_seen(self, item, tid) }
  @_noLocks func thread(of item: UInt64) -> Int32 { observer_work_tid(self, item) }
  @_noLocks func share(_ item: UInt64, at time: UInt64) { observer_work_share(self, item, time) }
  @_noLocks func shareTime(of item: UInt64) -> UInt64 { observer_work_shared_ns(self, item) }
  @_noLocks func lose(_ item: UInt64) { observer_work_lose(self, item) }
  @_noLocks func lost(of item: UInt64) -> UInt64 { observer_work_lost(self, item) }
}

extension UnsafeMutablePointer where Pointee == observer_stall {
  @_noLocks func suspect(_ tid: Int32) { observer_stall_suspect(self, tid) }
  @_noLocks func clear() { observer_stall_clear(self) }
  var item: UInt64 { @_noLocks get { observer_stall_item(self) } }
  var isStalled: Bool { @_noLocks get { observer_stall_is_stalled(self) } }

  @_noLocks func read() -> observer_stall_snapshot {
    var view = observer_stall_snapshot()
    observer_stall_read(self, &view)
    return view
  }
}

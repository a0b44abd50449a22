import CCulpritLinux
import CCulpritObserver
import CulpritReports
import CulpritStallRecord

extension Recorder {
  /// Stores the place of a counted stall, and reduces the sampling of its work.
  func place(_ box: Box, _ event: UnsafePointer<observer_event>, _ index: Int, _ state: inout State) {
    // SAFETY: the event stays valid until the ring's only reader consumes it.
    let head = event.pointee
    box.counts.sample(isTaken: head.status != OBSERVER_SAMPLER_STOPPED.rawValue)
    box.counts.lose(upTo: head.lost)
    guard var member = box.member, member.place == .unknown, head.role == OBSERVER_OF_WORKER.rawValue,
      let stack = CapturedSample(event).stack
    else { return }
    state.storms.move(&member, to: Storms.Place(stack))
    box.member = member
    SlotRegistry.shared.sample(index, generation: head.generation, rarely: true)
  }

  func placeRecorded(_ box: Box, _ state: inout State) {
    guard var member = box.member, member.place == .unknown else { return }
    state.storms.move(&member, to: box.item.place)
    box.member = member
  }

  /// Updates the files of recorded stalls while many stalls are under way: after a kill, only the files are left.
  func updateFiles(_ state: inout State) {
    let now = clinux_clock_ns()
    guard now &- state.updated >= Self.updateInterval else { return }
    state.updated = now
    // With many stalls, the monitor reports the age of each less often.
    let isRare = state.items.count > Self.fewItems
    guard isRare || state.storms.hasUnnoted else { return }
    state.storms.noted()
    let recorded = state.items.filter { $0.value.item.stall != nil && !$0.value.item.isCounted }
    // The oldest stall is likely to end first, and its report then has the counts.
    for (slot, box) in recorded.ordered(by: { $0.value.item.stall?.id ?? 0 < $1.value.item.stall?.id ?? 0 }) {
      if isRare { box.item.updateAge(Self.age(slot, box.item.item)) }
      guard var member = box.member else { continue }
      if let count = state.storms.note(&member, now: now) { box.item.add(count.note) }
      box.member = member
    }
  }

  /// Returns the age of the stalled work item at the last tick of the monitor; zero if it is over.
  static func age(_ slot: Int, _ item: UInt64) -> Duration {
    Duration(wholeNanoseconds: observer_stall_age_ns(UInt32(truncatingIfNeeded: slot), item))
  }

  private static let updateInterval: UInt64 = 250_000_000
  /// Number of work items up to which the monitor reports ages at least every ``updateInterval``.
  private static let fewItems = Int(updateInterval / WorkItemTracker.eventIntervalPerStall)

  /// Records a counted stall from now on if no other stall at its place is recorded.
  func continueInStorm(_ box: Box, _ index: Int, _ state: inout State, now: UInt64) {
    guard var member = box.member, let stall = box.item.stall else { return }
    if box.item.isCounted, state.storms.records(&member, now: now) {
      SlotRegistry.shared.sample(index, generation: box.item.generation, rarely: false)
      let text = EventText(stall, of: process, isHang: false)
      pending.begin(stall, text, in: .init(slot: index, item: box.item.item), isCounted: false)
      pending.uncount(stall.source)
      box.item.begin(stall, process: process, box: self.box, present: state.reading.presentModules(modules))
      box.task = Self.task(index, box.item.item)
    }
    box.member = member
  }

  func endStorm(_ box: Box, _ state: inout State, now: UInt64) {
    guard var member = box.member else { return }
    if let count = state.storms.end(&member, now: now) { box.item.add(count.note) }
    box.member = nil
  }
}

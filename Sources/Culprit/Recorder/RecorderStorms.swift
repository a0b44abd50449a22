import CCulpritObserver
import CulpritStallRecord

/// Stalls of sections that are only counted (``Storms``).
extension Recorder {
  /// A sample of the stall of `box`, which is only counted: its place is kept, and no further samples are wanted.
  func place(_ box: Box, _ event: UnsafePointer<observer_event>, _ index: Int, _ state: inout State) {
    // SAFETY: as in handle(_:_:).
    let head = event.pointee
    box.counts.sample(isTaken: head.status != OBSERVER_SAMPLER_STOPPED.rawValue)
    box.counts.lose(upTo: head.lost)
    guard var member = box.member, member.place == .unknown, head.whose == OBSERVER_OF_WORKER.rawValue,
      let stack = CapturedSample(event).stack
    else { return }
    state.storms.move(&member, to: Storms.Place(stack))
    box.member = member
    SlotRegistry.shared.sampleRarely(index, generation: head.generation)
  }

  /// The stall of `box` goes on: it is recorded from now on if nothing else of its storm is, or its count is noted.
  func goOnInStorm(_ box: Box, _ index: Int, _ state: inout State, now: UInt64) {
    guard var member = box.member, let stall = box.item.stall else { return }
    if !box.item.isCounted {
      if let count = state.storms.note(&member, now: now) { box.item.add(count.note) }
    } else if state.storms.records(&member, now: now) {
      SlotRegistry.shared.sampleAsBefore(index, generation: box.item.generation)
      box.item.begin(stall, process: process, box: self.box, present: state.reading.presentModules(modules))
      box.task = Self.task(index, box.item.item)
    }
    box.member = member
  }

  /// The stall of `box` is over, or nothing more is known of it.
  func endStorm(_ box: Box, _ state: inout State, now: UInt64) {
    guard var member = box.member else { return }
    if let count = state.storms.end(&member, now: now) { box.item.add(count.note) }
    box.member = nil
  }
}

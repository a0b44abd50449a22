import CCulpritObserver
import CulpritStallRecord

extension Recorder {
  /// Processes a sample of a stall that is only counted: stores its place, and has the work sampled rarely.
  func place(_ box: Box, _ event: UnsafePointer<observer_event>, _ index: Int, _ state: inout State) {
    // SAFETY: the event stays valid until the ring's only reader consumes it.
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

  /// Updates the storm of `box`, whose stall continues. A counted stall is recorded from now on if no other stall at
  /// its place is.
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

  /// Removes the stall of `box` from its storm.
  func endStorm(_ box: Box, _ state: inout State, now: UInt64) {
    guard var member = box.member else { return }
    if let count = state.storms.end(&member, now: now) { box.item.add(count.note) }
    box.member = nil
  }
}

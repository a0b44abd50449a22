import CCulpritLinux
import CCulpritObserver
import CulpritStallRecord
import Glibc
import Synchronization

/// Calls the handlers of sections on the ``Workers``, before the stall is recorded or saved.
final class SectionHandlers: Sendable {
  /// Longest wait of ``StallEvent/report()`` for the recorder, in nanoseconds.
  private static let recorderPatience: UInt64 = 2_000_000_000

  private struct Call {
    var handler: SectionHandler
    var source: WatchedSource
    var slot: Int
    var stall: observer_stall_snapshot
  }

  private struct Seen {
    /// The last late work item of each slot.
    var items: [UInt64] = []
    /// The value of `observer_control_late` at the last reading of the table.
    var word: UInt32 = 0
  }

  private let control: ControlBlock
  private let workers: Workers
  private let recorder: Recorder
  private let process: ObservedProcess
  private let settings: ReportSettings
  private let isStarted = Atomic<Bool>(false)
  private let seen = Mutex(Seen())

  init(
    _ control: ControlBlock,
    _ workers: Workers,
    _ recorder: Recorder,
    _ process: ObservedProcess,
    _ settings: ReportSettings
  ) {
    self.control = control
    self.workers = workers
    self.recorder = recorder
    self.process = process
    self.settings = settings
  }

  func start() {
    guard !isStarted.load(ordering: .relaxed), !isStarted.exchange(true, ordering: .acquiringAndReleasing) else {
      return
    }
    seen.withLock { $0.items = [UInt64](repeating: 0, count: Int(OBSERVER_SLOTS_MAX)) }
    workers.setSections { [weak self] in self?.collect() ?? [] }
    workers.start()
  }

  /// Claims the handlers of the sections that have become late since the last reading.
  private func collect() -> [Workers.Call] {
    let calls = seen.withLock { seen -> [Call] in
      let word = observer_control_late(control.pointer)
      guard word != seen.word else { return [] }
      seen.word = word
      return found(&seen.items)
    }
    return calls.map { call in { [self] in make(call) } }
  }

  private func make(_ call: Call) {
    let event = event(call)
    call.handler.mask.run { call.handler.body(event) }
  }

  private func found(_ seen: inout [UInt64]) -> [Call] {
    guard let stalls = observer_stall_table_if_any().map(StallTable.init),
      let slots = observer_slot_table_if_any().map(SlotTable.init)
    else { return [] }
    var calls: [Call] = []
    for index in 0..<min(seen.count, Int(observer_control_slots_used(control.pointer))) {
      let item = stalls[index].item
      guard item != 0, item != seen[index] else { continue }
      let stall = stalls[index].read()
      guard stall.item == item else { continue }
      let slot = slots[index].read()
      // Either the work item is over, or the slot does not show it yet.
      guard slot.item == stall.item else { continue }
      seen[index] = stall.item
      guard let (source, claim) = SlotRegistry.shared.handler(index, generation: slot.generation),
        let handler = claim()
      else { continue }
      calls.append(Call(handler: handler, source: source, slot: index, stall: stall))
    }
    return calls
  }

  private func event(_ call: Call) -> StallEvent {
    let (view, index) = (call.stall, call.slot)
    let stall = Stall(
      id: 0,
      source: call.source,
      thread: ObservedThread(id: view.tid, name: Recorder.threadName(view.tid)),
      threshold: Duration(wholeNanoseconds: view.threshold_ns),
      began: Recorder.timeOfDay(view.item),
      duration: Duration(wholeNanoseconds: view.age_ns)
    )
    return StallEvent(stall, of: process, isHang: false) { [weak recorder, settings] in
      let deadline = clinux_clock_ns() &+ Self.recorderPatience
      let recording = recorder?.recording(of: stall, slot: index, item: view.item, until: deadline)
      return recording.flatMap { settings.reportSoFar($0) }
    }
  }
}

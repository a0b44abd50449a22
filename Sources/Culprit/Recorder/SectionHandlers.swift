import CCulpritLinux
import CCulpritObserver
import CulpritStallRecord
import Glibc
import Synchronization

/// The threads that call the handlers of sections.
///
/// They read from the monitor's table which sections are late, so a handler is called before anything of the stall is
/// recorded or saved. Handlers that return soon need two threads. Further threads are started while calls wait for
/// handlers that block, and end when they have been idle.
final class SectionHandlers: Sendable {
  /// Threads that stay for as long as the watchdog.
  private static let threadsMin = 2
  /// Threads that are started while calls have waited for ``patience``. Beyond these, only while every thread has been in
  /// its handler for so long.
  private static let threadsSoon = 6
  static let threadsMax = 64
  private static let patience: UInt64 = 20_000_000
  /// The time after which a further thread that is idle ends.
  private static let idleTime: UInt64 = 10_000_000_000
  /// The time for which the signals blocked by the main thread count as unchanged.
  private static let maskTime: UInt64 = 100_000_000
  /// The longest wait of ``StallEvent/report()`` for the recorder.
  private static let recorderPatience: UInt64 = 2_000_000_000

  /// A handler that is due.
  private struct Call {
    var handler: SectionHandler
    var source: WatchedSource
    var slot: Int
    var stall: observer_stall_snapshot
    var due: UInt64
  }

  private struct State {
    var waiting: [Call] = []
    /// The place of the first call in `waiting` that is left.
    var next = 0
    var threads = 0
    /// The threads that wait for a call.
    var idle = 0
    /// When the last call was taken.
    var taken: UInt64 = 0
    var mainMask: UInt64 = 0
    var mainMaskTime: UInt64 = 0

    var oldest: Call? { next < waiting.count ? waiting[next] : nil }

    mutating func take() -> Call? {
      guard let call = oldest else { return nil }
      next += 1
      taken = clinux_clock_ns()
      if next == waiting.count { (waiting, next) = ([], 0) }
      return call
    }
  }

  private struct Seen {
    /// The last late work item of each slot.
    var items: [UInt64] = []
    /// The control's word when the table was read.
    var word: UInt32 = 0
  }

  private let control: ControlBlock
  private let recorder: Recorder
  private let process: ObservedProcess
  private let settings: ReportSettings
  private let state = Mutex(State())
  private let isStarted = Atomic<Bool>(false)
  private let isStopping = StopFlag()
  /// What has been read of the table. Locked by the thread that reads it.
  private let seen = Mutex(Seen())

  /// Threads for handlers of the sections that `control`'s monitor watches. None is started before ``start()``.
  init(_ control: ControlBlock, _ recorder: Recorder, _ process: ObservedProcess, _ settings: ReportSettings) {
    self.control = control
    self.recorder = recorder
    self.process = process
    self.settings = settings
  }

  /// The number of threads that call handlers.
  var threads: Int { state.withLock { $0.threads } }

  /// Starts the threads, once. A thread cannot be started during a stall that holds the address space's lock.
  func start() {
    guard !isStarted.load(ordering: .relaxed), !isStarted.exchange(true, ordering: .acquiringAndReleasing) else {
      return
    }
    seen.withLock { $0.items = [UInt64](repeating: 0, count: Int(OBSERVER_SLOTS_MAX)) }
    for _ in 0..<Self.threadsMin { startThread(isPermanent: true) }
    try? PosixThread(name: "culprit-calls") { [self] in addThreads() }.detach()
  }

  /// Makes the threads end when every handler that is due has been called.
  func stop() {
    isStopping.set()
    observer_control_tell_late(control.pointer)
  }

  private func startThread(isPermanent: Bool) {
    state.withLock { $0.threads += 1 }
    let thread = try? PosixThread(name: "culprit-handler") { [self] in
      run(isPermanent: isPermanent)
      state.withLock { $0.threads -= 1 }
    }
    if let thread { thread.detach() } else { state.withLock { $0.threads -= 1 } }
  }

  /// Starts further threads while calls wait.
  private func addThreads() {
    while true {
      let word = observer_control_late(control.pointer)
      if isStopping.isSet { return }
      // Nothing else reads the table while every handler blocks.
      if state.withLock({ $0.idle == 0 }) { collect() }
      let deadline = state.withLock { state -> UInt64 in
        guard let due = state.oldest?.due, state.threads < Self.threadsMax else { return .max }
        return (state.threads < Self.threadsSoon ? due : max(due, state.taken)) &+ Self.patience
      }
      if clinux_clock_ns() >= deadline {
        startThread(isPermanent: false)
        // The new thread takes a call first.
        resting { clinux_pause_ns(Self.patience / 4) }
      } else {
        resting { observer_control_wait_late(control.pointer, word, deadline) }
      }
    }
  }

  /// Calls handlers until it is stopped, or has been idle if it is not permanent.
  private func run(isPermanent: Bool) {
    while true {
      let word = observer_control_late(control.pointer)
      let isStopping = isStopping.isSet
      collect()
      if let call = state.withLock({ $0.take() }) {
        let event = event(call)
        call.handler.mask.run(mainMask: mainMask()) { call.handler.body(event) }
      } else if isStopping {
        return
      } else {
        let end = isPermanent ? .max : clinux_clock_ns() &+ Self.idleTime
        state.withLock { $0.idle += 1 }
        resting { observer_control_wait_late(control.pointer, word, end) }
        state.withLock { $0.idle -= 1 }
        if clinux_clock_ns() >= end, observer_control_late(control.pointer) == word { return }
      }
    }
  }

  /// The signals that the main thread blocks. Reading them takes longer than many handlers.
  private func mainMask() -> UInt64 {
    let now = clinux_clock_ns()
    let known = state.withLock { now &- $0.mainMaskTime < Self.maskTime ? $0.mainMask : nil }
    if let known { return known }
    let mask = clinux_mask_of_main()
    state.withLock { ($0.mainMask, $0.mainMaskTime) = (mask, now) }
    return mask
  }

  /// Claims the handlers of the sections that have become late since the table was read last.
  private func collect() {
    let calls = seen.withLock { seen -> [Call] in
      let word = observer_control_late(control.pointer)
      guard word != seen.word else { return [] }
      seen.word = word
      return found(&seen.items)
    }
    guard !calls.isEmpty else { return }
    state.withLock { $0.waiting += calls }
    if calls.count > 1 { observer_control_tell_late(control.pointer) }
  }

  private func found(_ seen: inout [UInt64]) -> [Call] {
    guard let stalls = observer_stall_table_if_any(), let slots = observer_slot_table_if_any() else { return [] }
    var calls: [Call] = []
    let due = clinux_clock_ns()
    for index in 0..<min(seen.count, Int(observer_control_slots_used(control.pointer))) {
      // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the size of both tables, which are never freed.
      guard observer_stall_is_stalled(stalls + index) else { continue }
      var stall = observer_stall_snapshot()
      observer_stall_read(stalls + index, &stall)
      guard stall.item != 0, stall.item != seen[index] else { continue }
      let slot = observer_slot_read(slots + index)
      // The work item is over, or the table has it before the slot.
      guard slot.item == stall.item else { continue }
      seen[index] = stall.item
      guard let (source, claim) = SlotRegistry.shared.handler(index, generation: slot.generation),
        let handler = claim()
      else { continue }
      calls.append(Call(handler: handler, source: source, slot: index, stall: stall, due: due))
    }
    return calls
  }

  /// The event of the stall that `call` is about.
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
      guard var recording = recorder?.recording(of: stall, slot: index, item: view.item, until: deadline),
        let stall = recording.stalls.first
      else { return nil }
      recording.modules = ModuleList.covering(recording.stacks)
      return settings.report(of: stall, in: recording, settings.symbolizer(of: recording))
    }
  }
}

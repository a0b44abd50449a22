import CCulpritLinux
import CCulpritObserver
import CulpritReports
import CulpritStallRecord
import Synchronization

/// How many bytes of a label are kept.
private let labelBytes = OBSERVER_LABEL_WORDS * 8

/// Who owns which target slot.
///
/// One for the process, like the slots themselves: a loop object may outlive the watchdog that made it and go on
/// marking its slot, which must therefore not be given to anybody else. A child of fork(2) begins with none
/// (``startOver()``): what its parent leased can be marked and ended in it to no effect, and without a lock.
final class SlotRegistry: Sendable {
  /// A slot as its owner holds it.
  struct Lease: @unchecked Sendable {
    // SAFETY: the slot table is never freed, and its fields are atomic.
    let slot: UnsafeMutablePointer<observer_slot>
    let index: Int
    let generation: UInt32
    /// Whose it is: a child of fork(2) has copies of its parent's.
    let process: UInt32
    /// What counts the latencies of its source's probes.
    let series: Series
    /// What wakes its monitor.
    let control: ControlBlock

    /// Whether it is this process's. In a child of fork(2) a lease is worth nothing; its slot may be marked all the
    /// same.
    var isOurs: Bool { clinux_process_is(process) }

    /// Begins and ends a scope that may take as long as it does, if the slot is the lease's still.
    func exempt() { observer_slot_exempt(slot, generation) }
    func exemptNoMore() {
      guard observer_slot_exempt_no_more(slot, generation), isOurs else { return }
      let suspicion = observer_slot_suspicion_ns(slot)
      if suspicion != .max { observer_control_tick_by(control.pointer, clinux_clock_ns() &+ suspicion) }
    }
  }

  private struct Owner {
    var source: WatchedSource
    /// What it was to be called: another watchdog of the process may have had the name before.
    var asked: WatchedSource
    /// The number of the start of a watchdog that it belongs to; 0 for Culprit's own.
    var start: UInt64
    var generation: UInt32
    var limits: Limits
    /// Where its metrics are counted.
    var place: SeriesTable.Place
    /// Claims the call of the section's handler.
    var handler: (@Sendable () -> SectionHandler?)?
    /// The watch has ended; the owner may still mark its work until it is gone.
    var hasStopped = false
  }

  /// How an owner wants its work watched; the configuration decides what is `nil`.
  private struct Limits {
    var threshold: Duration?
    var interval: Duration?
    var polled: Bool
  }

  /// What a slot watched before its present owner.
  private struct Former {
    var index: Int
    var generation: UInt32
    var source: WatchedSource
  }

  /// So many former owners are remembered: the recorder may be told of their last work items later than they have left.
  private static let formerMax = 4096

  private struct State {
    var owners: [Owner?] = []
    var free: [Int] = []
    var former: [Former] = []
    var nextFormer = 0
    var series = SeriesTable()
    var control: ControlBlock?
    var threshold = Duration.seconds(4)
    var interval = Duration.seconds(1)
    var isEnabled = true
  }

  static let shared = SlotRegistry()

  private let state = Mutex(State())

  /// In a child of fork(2), before its first watchdog: nothing is leased. What the parent leased stays in the parent's
  /// slots.
  func startOver() { state.startOver(State()) }

  /// Makes the slots visible to the monitor that `control` belongs to, and forgets what an earlier watchdog saw in
  /// them and how it watched. Before anybody asks how far stalls have come.
  func activate(_ control: ControlBlock, _ configuration: Configuration) {
    state.withLock { state in
      for index in state.owners.indices { forgetStall(index) }
      state.control = control
      observer_control_use_slots(control.pointer, UInt32(state.owners.count))
    }
    follow(configuration, for: control)
  }

  /// Watches as `configuration` says from now on, if `control`'s monitor watches.
  func follow(_ configuration: Configuration, for control: ControlBlock) {
    state.withLock { state in
      guard state.control === control else { return }
      state.threshold = configuration.sampling.threshold
      state.interval = configuration.sampleInterval
      state.isEnabled = configuration.isEnabled
      observer_control_set_hang_delay_ns(control.pointer, configuration.hangDelay.wholeNanoseconds)
      for (index, owner) in state.owners.enumerated() {
        guard let owner, !owner.hasStopped, let slot = slot(index) else { continue }
        setLimits(owner.limits, state) { observer_slot_limit(slot, $0, $1, $2, $3, $4) }
      }
      // It may be sleeping for longer than is right now.
      observer_control_wake(control.pointer)
    }
  }

  /// Passes what `limits` mean now to `set`: whether the slot is polled, and four times in nanoseconds.
  private func setLimits<Result>(
    _ limits: Limits,
    _ state: borrowing State,
    _ set: (Bool, UInt64, UInt64, UInt64, UInt64) -> Result
  ) -> Result {
    guard state.isEnabled else { return set(limits.polled, .max, .max, .max, .max) }
    let found = WatchLimits(
      threshold: limits.threshold ?? state.threshold,
      interval: limits.interval ?? state.interval
    )
    return set(
      limits.polled,
      found.suspicion.wholeNanoseconds,
      found.threshold.wholeNanoseconds,
      found.earlyInterval.wholeNanoseconds,
      found.interval.wholeNanoseconds
    )
  }

  /// Detaches the slots from their monitor, which has ended: no work item is watched any more.
  func deactivate() {
    state.withLock { state in
      state.control = nil
      state.former = []
      state.nextFormer = 0
      for index in state.owners.indices where state.owners[index] != nil {
        state.owners[index]?.hasStopped = true
        if let slot = slot(index) { observer_slot_disable(slot) }
      }
      for index in state.owners.indices { forgetStall(index) }
    }
  }

  /// Forgets how far a stall in slot `index` has come.
  private func forgetStall(_ index: Int) {
    // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the table's size; the table is never freed.
    if let stalls = observer_stall_table() { observer_stall_reset(stalls + index) }
  }

  /// Leases a slot for `source`.
  ///
  /// - Parameters:
  ///   - source: What is watched.
  ///   - start: The number of the start of a watchdog that wants it; 0 for Culprit itself.
  ///   - control: The monitor that is to watch it.
  ///   - threshold: How long a work item may take; default (`nil`): the configuration's.
  ///   - interval: The time between samples of a stall; default (`nil`): the configuration's.
  ///   - polled: Whether work items begin without telling the monitor.
  /// - Returns: The lease, to be given to ``end(_:)``.
  /// - Throws: ``WatchdogError`` when nobody watches, the source is watched already or all slots are taken.
  func lease(
    _ source: WatchedSource,
    of start: UInt64 = 0,
    for control: ControlBlock,
    threshold: Duration? = nil,
    interval: Duration? = nil,
    polled: Bool
  ) throws(WatchdogError) -> Lease {
    let lease: Result<Lease, WatchdogError> = state.withLock { state in
      guard state.control === control else { return .failure(.stopped) }
      let asked = source
      var source = source
      if source.kind != .section {
        let present = state.owners.compactMap { $0 }.filter { !$0.hasStopped }
        if present.contains(where: { Self.readAlike($0.asked, source) && $0.start == start }) {
          return .failure(.alreadyWatched(source.name))
        }
        source = Self.numbered(source, beside: present.map(\.source))
      }
      guard let index = takeFree(&state) ?? nextUnused(&state), let slot = slot(index) else {
        return .failure(.tooManySources(limit: Int(OBSERVER_SLOTS_MAX)))
      }
      forgetStall(index)
      if let stalls = observer_stall_table() {
        // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the table's size; the table is never freed.
        observer_stall_set_name(stalls + index, UInt32(source.kind.code), source.name, source.name.utf8.count)
      }
      let limits = Limits(threshold: threshold, interval: interval, polled: polled)
      let (generation, suspicion) = setLimits(limits, state) { polled, suspicion, threshold, early, interval in
        (observer_slot_configure(slot, polled, suspicion, threshold, early, interval), suspicion)
      }
      let (place, series) = state.series.acquire(source, slot: index)
      state.owners[index] = Owner(
        source: source,
        asked: asked,
        start: start,
        generation: generation,
        limits: limits,
        place: place
      )
      observer_control_use_slots(control.pointer, UInt32(state.owners.count))
      control.hasSources.store(true, ordering: .relaxed)
      // The monitor may be sleeping for longer than the new source allows.
      if polled, suspicion != .max { observer_control_tick_by(control.pointer, clinux_clock_ns() &+ suspicion) }
      return .success(
        Lease(
          slot: slot,
          index: index,
          generation: generation,
          process: clinux_process_stamp(),
          series: series,
          control: control
        )
      )
    }
    return try lease.get()
  }

  /// Whether reports call them the same: a loop that is marked and one that is probed are both event loops.
  private static func readAlike(_ one: WatchedSource, _ other: WatchedSource) -> Bool {
    one.name == other.name && one.kind.description == other.kind.description
  }

  /// `source` under a name that nothing in `present` has: other watchdogs of the process may watch something called so.
  private static func numbered(_ source: WatchedSource, beside present: [WatchedSource]) -> WatchedSource {
    var numbered = source
    var number = 1
    while present.contains(where: { readAlike($0, numbered) }) {
      number += 1
      numbered.name = "\(source.name) (\(number))"
    }
    return numbered
  }

  /// Ends the unit that `lease` is marked with, if the slot is the lease's still.
  func endItem(_ lease: Lease) {
    guard lease.isOurs else { return }
    state.withLock { if owns(lease, $0) { observer_slot_end(lease.slot) } }
  }

  /// Whether the slot is the lease's still.
  func owns(_ lease: Lease) -> Bool { lease.isOurs && state.withLock { owns(lease, $0) } }

  /// Marks the begin of a work item on the calling thread, and makes sure that the monitor looks at it in time.
  func begin(_ lease: Lease, suspicion: Duration) {
    observer_slot_begin_exact(lease.slot)
    tick(after: suspicion)
  }

  /// Makes sure that the monitor looks once `time` has passed.
  func tick(after time: Duration) {
    guard let control = state.withLock({ $0.control }) else { return }
    observer_control_tick_by(control.pointer, clinux_clock_ns() &+ time.wholeNanoseconds)
  }

  /// The same for work that is handed over to `thread`, or to whoever the slot's words say; it counts after `delay`.
  func begin(
    _ lease: Lease,
    for thread: UnsafeMutablePointer<observer_thread>?,
    suspicion: Duration,
    after delay: Duration = .zero
  ) {
    observer_slot_begin_for(lease.slot, thread, clinux_clock_ns() &+ delay.wholeNanoseconds)
    tick(after: delay + suspicion)
  }

  /// Has the work in slot `index`, which does not begin anew, sampled once an hour: its stall is only counted.
  func sampleRarely(_ index: Int, generation: UInt32) {
    let hour: UInt64 = 3_600_000_000_000
    limit(index, generation: generation) { slot, polled, suspicion, threshold, _, _ in
      observer_slot_limit(slot, polled, suspicion, threshold, hour, hour)
    }
  }

  /// Has the work in slot `index` sampled as often as the configuration says.
  func sampleAsBefore(_ index: Int, generation: UInt32) {
    limit(index, generation: generation, observer_slot_limit)
  }

  private func limit(
    _ index: Int,
    generation: UInt32,
    _ set: (UnsafeMutablePointer<observer_slot>?, Bool, UInt64, UInt64, UInt64, UInt64) -> Void
  ) {
    state.withLock { state in
      guard state.owners.indices.contains(index), let owner = state.owners[index], owner.generation == generation,
        !owner.hasStopped, let slot = slot(index)
      else { return }
      setLimits(owner.limits, state) { set(slot, $0, $1, $2, $3, $4) }
    }
  }

  /// Has `handler` claimed when the work item that `lease` is marked with passes its threshold.
  func onStall(of lease: Lease, _ handler: @escaping @Sendable () -> SectionHandler?) {
    guard lease.isOurs else { return }
    state.withLock { if owns(lease, $0) { $0.owners[lease.index]?.handler = handler } }
  }

  /// The source that slot `index` watches, and its handler, if it has one.
  func handler(_ index: Int, generation: UInt32) -> (
    source: WatchedSource, claim: @Sendable () -> SectionHandler?
  )? {
    state.withLock { state in
      guard state.owners.indices.contains(index), let owner = state.owners[index], owner.generation == generation,
        let handler = owner.handler
      else { return nil }
      return (owner.source, handler)
    }
  }

  /// Whether the work item that `lease` is marked with has passed its threshold, as far as the monitor has seen.
  func isStalled(_ lease: Lease) -> Bool {
    guard lease.isOurs, let stalls = observer_stall_table() else { return false }
    // SAFETY: a lease's index is below OBSERVER_SLOTS_MAX, the table's size; the table is never freed.
    guard observer_stall_is_stalled(stalls + lease.index) else { return false }
    var stall = observer_stall_snapshot()
    observer_stall_read(stalls + lease.index, &stall)
    return stall.item != 0 && stall.item == observer_slot_work_item(lease.slot)
  }

  /// Sets what the application says of the work, of which 56 bytes are kept, cut at a character.
  func label(_ lease: Lease, _ text: String) {
    var bytes = Array(text.utf8.prefix(labelBytes + 1))
    if bytes.count > labelBytes {
      // 10xxxxxx is the middle of a character in UTF-8: what it begins with goes, too.
      while let last = bytes.popLast(), last & 0xc0 == 0x80 {}
    }
    bytes.withUnsafeBufferPointer { buffer in
      // SAFETY: the bytes are copied before the call returns.
      buffer.withMemoryRebound(to: CChar.self) {
        observer_slot_set_label(lease.slot, lease.generation, $0.baseAddress, $0.count)
      }
    }
  }

  /// Ends whatever `lease` is marked with and the watch. Its owner may go on marking the slot, which nobody else gets.
  func stop(_ lease: Lease) {
    guard lease.isOurs else { return }
    state.withLock { state in
      guard owns(lease, state), state.owners[lease.index]?.hasStopped == false else { return }
      observer_slot_end(lease.slot)
      remember(lease, &state)
      state.owners[lease.index]?.hasStopped = true
      observer_slot_disable(lease.slot)
    }
  }

  /// Ends the watch, if it has not been stopped, and gives the slot back. Its owner must not mark it any more. Does
  /// nothing when it has been given back.
  func end(_ lease: Lease) {
    // Not even a lock is taken for what is the parent's.
    guard lease.isOurs else { return }
    stop(lease)
    state.withLock { state in
      guard owns(lease, state) else { return }
      observer_slot_end(lease.slot)
      if let owner = state.owners[lease.index] { state.series.release(owner.place) }
      state.owners[lease.index] = nil
      state.free.append(lease.index)
    }
  }

  /// What slot `index` was watching when its generation was `generation`; `nil` when that has been forgotten.
  func source(_ index: Int, generation: UInt32) -> WatchedSource? {
    state.withLock { state in
      if state.owners.indices.contains(index), let owner = state.owners[index], owner.generation == generation {
        return owner.source
      }
      return state.former.first { $0.index == index && $0.generation == generation }?.source
    }
  }

  /// What slot `index` is watching now.
  func source(_ index: Int) -> WatchedSource? {
    state.withLock { state in state.owners.indices.contains(index) ? state.owners[index]?.source : nil }
  }

  /// Where the recorder counts what slot `index` was watching when its generation was `generation`; `nil` when that has
  /// been forgotten.
  func series(_ index: Int, generation: UInt32) -> Series? {
    // Who counts there must find the series to be that source's still: it is kept.
    source(index, generation: generation).map { source in state.withLock { $0.series.keep(source) } }
  }

  /// What is counted, by source.
  func allSeries() -> [(source: StallReport.Source, series: Series)] { state.withLock { $0.series.all } }

  /// The slots whose sources are watched now, and what these are called in metrics.
  func watched() -> [(index: Int, source: StallReport.Source)] {
    state.withLock { state in
      state.owners.enumerated().compactMap { index, owner in
        guard let owner, !owner.hasStopped else { return nil }
        return (index, owner.place == nil ? SeriesTable.others : StallReport.Source(SeriesTable.abridged(owner.source)))
      }
    }
  }

  private func owns(_ lease: Lease, _ state: borrowing State) -> Bool {
    state.owners[lease.index]?.generation == lease.generation
  }

  /// Keeps what the slot watched for a recorder that is late, if the monitor can have told it anything.
  private func remember(_ lease: Lease, _ state: inout State) {
    guard observer_slot_end_time_was_wanted(lease.slot), let owner = state.owners[lease.index] else { return }
    let former = Former(index: lease.index, generation: lease.generation, source: owner.source)
    if state.former.count < Self.formerMax {
      state.former.append(former)
    } else {
      state.former[state.nextFormer] = former
      state.nextFormer = (state.nextFormer + 1) % Self.formerMax
    }
  }

  /// Takes a slot that was given back, unless its former owner is just changing it.
  private func takeFree(_ state: inout State) -> Int? {
    for place in state.free.indices.reversed() {
      if let slot = slot(state.free[place]), observer_slot_retire(slot) { return state.free.remove(at: place) }
    }
    return nil
  }

  private func nextUnused(_ state: inout State) -> Int? {
    guard state.owners.count < Int(OBSERVER_SLOTS_MAX) else { return nil }
    state.owners.append(nil)
    return state.owners.count - 1
  }

  private func slot(_ index: Int) -> UnsafeMutablePointer<observer_slot>? {
    // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the table's size; the table is never freed.
    observer_slot_table().map { $0 + index }
  }
}

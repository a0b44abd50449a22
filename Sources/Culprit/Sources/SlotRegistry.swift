import CCulpritLinux
import CCulpritObserver
import CulpritReports
import CulpritStallRecord
import Synchronization

/// The owners of the target slots. The process has one registry.
///
/// A loop can outlive its watchdog and mark its slot, which must not be leased again. A child of fork(2) begins with an
/// empty registry, in which leases of the parent have no effect and take no lock.
final class SlotRegistry: Sendable {
  struct Lease: @unchecked Sendable {
    // SAFETY: the slot table is never freed, and its fields are atomic.
    let slot: UnsafeMutablePointer<observer_slot>
    let index: Int
    let generation: UInt32
    /// The leasing process. A child of fork(2) has copies of its parent's leases.
    let process: UInt32
    /// The counters for probe latencies.
    let series: Series
    let control: ControlBlock

    /// Whether this process made the lease. A child of fork(2) can mark its parent's slot, without effect.
    var isOurs: Bool { clinux_process_is(process) }

    /// Begins a scope without a time limit, if the lease still owns the slot. ``endExemption()`` ends it.
    func exempt() { observer_slot_exempt(slot, generation) }
    func endExemption() {
      guard observer_slot_exempt_no_more(slot, generation), isOurs else { return }
      let suspicion = slot.suspicion
      if suspicion != .max { observer_control_tick_by(control.pointer, clinux_clock_ns() &+ suspicion) }
    }
  }

  private struct Owner {
    var source: WatchedSource
    /// The requested source. `source` has a number added if another watchdog uses the name.
    var asked: WatchedSource
    /// The number of the watchdog's start; 0 for Culprit's own sources.
    var start: UInt64
    var generation: UInt32
    var limits: Limits
    var place: SeriesTable.Place
    var handler: (@Sendable () -> SectionHandler?)?
    /// The owner can still mark its work until the lease is returned.
    var hasStopped = false
  }

  /// The limits of a source; `nil`: the configuration's value.
  private struct Limits {
    var threshold: Duration?
    var interval: Duration?
    var polled: Bool
  }

  private struct Former {
    var index: Int
    var generation: UInt32
    var source: WatchedSource
  }

  /// Number of former owners kept, whose last work items might reach the recorder late.
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

    func owner(_ index: Int, generation: UInt32) -> Owner? {
      guard owners.indices.contains(index), let owner = owners[index] else { return nil }
      return owner.generation == generation ? owner : nil
    }
  }

  static let shared = SlotRegistry()

  private let state = Mutex(State())

  func startOver() { state.startOver(State()) }

  /// Attaches the slots to the monitor of `control` and clears the stall states of an earlier watchdog. Must be called
  /// before any stall state is read.
  func activate(_ control: ControlBlock, _ configuration: Configuration) {
    state.withLock { state in
      for index in state.owners.indices { forgetStall(index) }
      state.control = control
      observer_control_use_slots(control.pointer, UInt32(state.owners.count))
    }
    follow(configuration, for: control)
  }

  /// Applies `configuration`, if the monitor of `control` is the active one.
  func follow(_ configuration: Configuration, for control: ControlBlock) {
    state.withLock { state in
      guard state.control === control else { return }
      state.threshold = configuration.sampling.threshold
      state.interval = configuration.sampleInterval
      state.isEnabled = configuration.isEnabled
      observer_control_set_hang_delay_ns(control.pointer, configuration.hangDelay.wholeNanoseconds)
      for (index, owner) in state.owners.enumerated() {
        guard let owner, !owner.hasStopped, let slot = slot(index) else { continue }
        observer_slot_limit(slot, effective(owner.limits, state))
      }
      // The monitor might be sleeping for longer than the new settings allow.
      observer_control_wake(control.pointer)
    }
  }

  private func effective(_ limits: Limits, _ state: borrowing State) -> observer_limits {
    guard state.isEnabled else {
      let never = UInt64.max
      return observer_limits(
        suspicion_ns: never,
        threshold_ns: never,
        early_interval_ns: never,
        interval_ns: never,
        polled: limits.polled
      )
    }
    let found = WatchLimits(
      threshold: limits.threshold ?? state.threshold,
      interval: limits.interval ?? state.interval
    )
    return observer_limits(
      suspicion_ns: found.suspicion.wholeNanoseconds,
      threshold_ns: found.threshold.wholeNanoseconds,
      early_interval_ns: found.earlyInterval.wholeNanoseconds,
      interval_ns: found.interval.wholeNanoseconds,
      polled: limits.polled
    )
  }

  /// Detaches the slots from their monitor, which has ended, and stops all watches.
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

  private func forgetStall(_ index: Int) {
    if let entry = stall(index) { observer_stall_reset(entry) }
  }

  /// Leases a slot for `source`. The lease must be passed to ``end(_:)``.
  ///
  /// `start` is the number of the watchdog's start, 0 for Culprit itself. If `polled`, work items begin without
  /// notifying the monitor.
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
      if let entry = stall(index) {
        observer_stall_set_name(entry, UInt32(source.kind.code), source.name, source.name.utf8.count)
      }
      let limits = Limits(threshold: threshold, interval: interval, polled: polled)
      let effective = effective(limits, state)
      let generation = observer_slot_configure(slot, effective)
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
      // The monitor might be sleeping for longer than the new source allows.
      if polled, effective.suspicion_ns != .max {
        observer_control_tick_by(control.pointer, clinux_clock_ns() &+ effective.suspicion_ns)
      }
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

  /// Returns whether two sources look equal in reports, which call marked and probed loops "event loop".
  private static func readAlike(_ one: WatchedSource, _ other: WatchedSource) -> Bool {
    one.name == other.name && one.kind.description == other.kind.description
  }

  /// Adds a number if a source of another watchdog has the name.
  private static func numbered(_ source: WatchedSource, beside present: [WatchedSource]) -> WatchedSource {
    var numbered = source
    var number = 1
    while present.contains(where: { readAlike($0, numbered) }) {
      number += 1
      numbered.name = "\(source.name) (\(number))"
    }
    return numbered
  }

  /// Ends the work item, if the lease still owns the slot.
  func endItem(_ lease: Lease) {
    guard lease.isOurs else { return }
    state.withLock { if owns(lease, $0) { lease.slot.end() } }
  }

  func owns(_ lease: Lease) -> Bool { lease.isOurs && state.withLock { owns(lease, $0) } }

  /// Marks the beginning of a work item on the calling thread.
  func begin(_ lease: Lease, suspicion: Duration) {
    observer_slot_begin_exact(lease.slot)
    tick(after: suspicion)
  }

  func tick(after time: Duration) {
    guard let control = state.withLock({ $0.control }) else { return }
    observer_control_tick_by(control.pointer, clinux_clock_ns() &+ time.wholeNanoseconds)
  }

  /// Marks that a work item begins after `delay` on `thread`, or on the thread named by the slot's words if `nil`.
  func begin(
    _ lease: Lease,
    for thread: UnsafeMutablePointer<observer_thread>?,
    suspicion: Duration,
    after delay: Duration = .zero
  ) {
    observer_slot_begin_for(lease.slot, thread, clinux_clock_ns() &+ delay.wholeNanoseconds)
    tick(after: delay + suspicion)
  }

  /// Samples the work as configured, or once an hour if `rarely`, for a stall that is only counted.
  func sample(_ index: Int, generation: UInt32, rarely: Bool) {
    state.withLock { state in
      guard let owner = state.owner(index, generation: generation), !owner.hasStopped, let slot = slot(index) else {
        return
      }
      var limits = effective(owner.limits, state)
      if rarely { (limits.early_interval_ns, limits.interval_ns) = (3_600_000_000_000, 3_600_000_000_000) }
      observer_slot_limit(slot, limits)
    }
  }

  func onStall(of lease: Lease, _ handler: @escaping @Sendable () -> SectionHandler?) {
    guard lease.isOurs else { return }
    state.withLock { if owns(lease, $0) { $0.owners[lease.index]?.handler = handler } }
  }

  func handler(_ index: Int, generation: UInt32) -> (
    source: WatchedSource, claim: @Sendable () -> SectionHandler?
  )? {
    state.withLock { state in
      guard let owner = state.owner(index, generation: generation), let handler = owner.handler else { return nil }
      return (owner.source, handler)
    }
  }

  /// Whether the monitor has seen the work item pass its threshold.
  func isStalled(_ lease: Lease) -> Bool {
    guard lease.isOurs, let item = stall(lease.index)?.read().item else { return false }
    return item != 0 && item == lease.slot.item
  }

  /// Labels the work with the end of `text` that fits.
  func label(_ lease: Lease, _ text: String) {
    labelBytes(of: text).withUnsafeBufferPointer { buffer in
      // SAFETY: the bytes are copied before the call returns.
      buffer.withMemoryRebound(to: CChar.self) {
        observer_slot_set_label(lease.slot, lease.generation, $0.baseAddress, $0.count)
      }
    }
  }

  /// Ends the work item and the watch. The owner can continue to mark the slot, which is not leased again.
  func stop(_ lease: Lease) {
    guard lease.isOurs else { return }
    state.withLock { state in
      guard owns(lease, state), state.owners[lease.index]?.hasStopped == false else { return }
      lease.slot.end()
      remember(lease, &state)
      state.owners[lease.index]?.hasStopped = true
      observer_slot_disable(lease.slot)
    }
  }

  /// Ends the watch and returns the slot, which the owner must not mark afterwards. A second call has no effect.
  func end(_ lease: Lease) {
    // A lease of the parent process must not take the lock.
    guard lease.isOurs else { return }
    stop(lease)
    state.withLock { state in
      guard owns(lease, state) else { return }
      lease.slot.end()
      if let owner = state.owners[lease.index] { state.series.release(owner.place) }
      state.owners[lease.index] = nil
      state.free.append(lease.index)
    }
  }

  /// `nil` if the source has been forgotten.
  func source(_ index: Int, generation: UInt32) -> WatchedSource? {
    state.withLock { state in
      state.owner(index, generation: generation)?.source
        ?? state.former.first { $0.index == index && $0.generation == generation }?.source
    }
  }

  func source(_ index: Int) -> WatchedSource? {
    state.withLock { state in state.owners.indices.contains(index) ? state.owners[index]?.source : nil }
  }

  /// Returns the work items under way, without probes that are not late.
  func workUnderWay(at now: UInt64) -> [(source: WatchedSource, view: observer_slot_snapshot, label: String)] {
    let present = state.withLock { state in
      state.owners.enumerated()
        .compactMap { index, owner in
          owner.flatMap { $0.hasStopped ? nil : (index: index, generation: $0.generation, source: $0.source) }
        }
    }
    return present.compactMap { index, generation, source in
      guard let slot = slot(index) else { return nil }
      let view = slot.read()
      guard view.item != 0, view.item <= now, view.generation == generation,
        !source.isProbed || now - view.item >= view.limits.suspicion_ns
      else { return nil }
      var label = observer_label()
      observer_slot_label(slot, &label)
      return (source, view, label.string)
    }
  }

  func series(_ index: Int, generation: UInt32) -> Series? {
    // `keep` prevents the series from being given to another source while the recorder counts in it.
    source(index, generation: generation).map { source in state.withLock { $0.series.keep(source) } }
  }

  func allSeries() -> [(source: StallReport.Source, series: Series)] { state.withLock { $0.series.all } }

  /// Returns the watched sources with their names in metrics.
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

  /// Remembers the source for a delayed recorder, if the monitor might have sent events about it.
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

  /// Takes a returned slot, unless its former owner is changing it at this moment.
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
    observer_slot_table().map { SlotTable($0)[index] }
  }

  private func stall(_ index: Int) -> UnsafeMutablePointer<observer_stall>? {
    observer_stall_table().map { StallTable($0)[index] }
  }
}

import CCulpritObserver
import CulpritStallRecord
import Synchronization

extension Watchdog {
  /// Runs `body` as a critical section, which is a stall when it takes longer than `threshold`.
  ///
  /// `body` is not interrupted. Sections may be nested and run on many threads at once. When 4,096 sources are watched
  /// already, or the watchdog has been stopped, `body` runs unwatched.
  ///
  /// - Parameters:
  ///   - name: The section's name in reports.
  ///   - threshold: How long it may take; less than 10 ms counts as 10 ms.
  ///   - body: The work.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws.
  public func withSection<Result: ~Copyable, Failure: Error>(
    _ name: String,
    threshold: Duration,
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let section = WatchedSection.begin(name, threshold, activeCore, number, for: self)
    defer { section.end() }
    return try body()
  }

  /// Runs `body`, which may suspend, as a critical section.
  ///
  /// As the synchronous form. The task is followed from thread to thread, and so are its children and the tasks that inherit its
  /// task-local values (`Task { … }`). While it is suspended, the report shows which of them runs, or else the place; while it waits
  /// for a thread, the work that runs there instead.
  ///
  /// - Parameters:
  ///   - name: The section's name in reports.
  ///   - threshold: How long it may take; less than 10 ms counts as 10 ms.
  ///   - isolation: Where `body` runs; default: where the caller does.
  ///   - body: The work.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws.
  public func withSection<Result, Failure: Error>(
    _ name: String,
    threshold: Duration,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws(Failure) -> Result
  ) async throws(Failure) -> Result {
    let section = WatchedSection.begin(name, threshold, activeCore, number, for: self, ofTask: TaskProbe.current)
    defer { section.end() }
    guard let mark = section.lease.map(SectionMark.init) else { return try await body() }
    // `withValue` rethrows errors without their type.
    let outcome: Swift.Result<Result, Failure> = await SectionMark.$current.withValue(
      mark,
      operation: {
        do throws(Failure) { return .success(try await body()) } catch { return .failure(error) }
      },
      isolation: isolation
    )
    return try outcome.get()
  }

  /// Begins a critical section of the calling task, or else thread, which is a stall when it takes longer than `threshold`.
  ///
  ///     let section = watchdog.beginSection("import", threshold: .seconds(2))
  ///     defer { section.end() }
  ///
  /// - Parameters:
  ///   - name: The section's name in reports.
  ///   - threshold: How long it may take; less than 10 ms counts as 10 ms.
  ///   - onStall: Called once when the threshold is passed before the section ends, while the section may still be under
  ///     way. A few threads call the handlers of all sections; while handlers block, others are called by up to 64
  ///     threads. The stall is reported besides.
  /// - Returns: The section, to be ended.
  public func beginSection(
    _ name: String,
    threshold: Duration,
    onStall: (@Sendable (StallEvent) -> Void)? = nil
  ) -> WatchedSection {
    // What awaits before the section ends may go on on another thread.
    let task = TaskProbe.shared.hasFailed ? 0 : TaskProbe.current
    return WatchedSection.begin(
      name,
      threshold,
      activeCore,
      number,
      for: self,
      ofTask: task,
      onStall: onStall
    )
  }
}

/// A critical section of the task or thread that began it.
///
/// It lasts until ``end()``, or until its last reference is released. When its threshold is passed before that, a stall
/// is reported and the section's handler is called once.
public final class WatchedSection: Sendable {
  private enum Phase: UInt8, AtomicRepresentable {
    case running
    case stalled
    case ended
  }

  fileprivate let lease: SlotRegistry.Lease?
  private let isOver = Atomic<Bool>(false)
  private let phase = Atomic<Phase>(.running)
  private let handler: SectionHandler?
  /// Keeps the watchdog alive, whose release would end the watch.
  private let watchdog: Watchdog?

  private init(_ watchdog: Watchdog?, _ lease: SlotRegistry.Lease?, _ handler: SectionHandler?) {
    self.watchdog = watchdog
    self.lease = lease
    self.handler = handler
  }

  /// Begins a section that `core` watches, for `watchdog`, which is `number`; for Culprit itself, if there is none.
  static func begin(
    _ name: String,
    _ threshold: Duration,
    _ core: Core?,
    _ number: UInt64,
    for watchdog: Watchdog? = nil,
    ofTask task: UInt64 = 0,
    onStall: (@Sendable (StallEvent) -> Void)? = nil
  ) -> WatchedSection {
    let threshold = max(threshold, Configuration.shortestTime)
    let limits = WatchLimits(threshold: threshold, interval: threshold)
    let source = WatchedSource(kind: .section, name: name)
    guard let core,
      let lease = try? SlotRegistry.shared.lease(
        source,
        of: number,
        for: core.control,
        threshold: threshold,
        polled: false
      )
    else { return WatchedSection(nil, nil, nil) }
    TaskProbe.shared.startInTask()
    let section = WatchedSection(watchdog, lease, onStall.map { SectionHandler($0) })
    // Before the work begins: from then on it can stall.
    if onStall != nil {
      core.sectionHandlers.start()
      SlotRegistry.shared.onStall(of: lease) { [weak section] in section?.claim() }
    }
    if task == 0 {
      SlotRegistry.shared.begin(lease, suspicion: limits.suspicion)
    } else {
      observer_slot_set_task(lease.slot, task, observer_swift_task_id(task))
      SlotRegistry.shared.begin(lease, for: nil, suspicion: limits.suspicion)
    }
    return section
  }

  /// Runs `body` as a section that `core` watches for itself.
  static func run(_ name: String, _ threshold: Duration, _ core: Core, _ body: () -> Void) {
    let section = begin(name, threshold, core, 0)
    defer { section.end() }
    body()
  }

  deinit { end() }

  /// Whether the section is watched: not when 4,096 sources were watched already, nor when the watchdog is disabled or has
  /// been stopped.
  public var isWatched: Bool { lease?.isOurs ?? false }

  /// Ends the section. May be called from any thread.
  ///
  /// - Returns: Whether the section ended before its handler was called. After `true` the handler is not called.
  ///   `false` means that it has been called or is about to be, or that the section had ended before. The stall of a
  ///   section that took too long is reported in either case.
  @discardableResult
  public func end() -> Bool {
    // First: in a child of fork(2) not even the Swift runtime may be asked for anything that it could have locked.
    if lease?.isOurs == false { return false }
    let isUnclaimed = phase.compareExchange(expected: .running, desired: .ended, ordering: .acquiringAndReleasing)
      .exchanged
    // Without a handler nothing claims the section.
    let isFirst = isUnclaimed && (handler != nil || lease.map { !SlotRegistry.shared.isStalled($0) } ?? true)
    guard let lease, !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return isFirst }
    SlotRegistry.shared.end(lease)
    return isFirst
  }

  /// Labels the work, as ``WatchedLoop/label(_:)`` does.
  ///
  /// - Parameter text: The label.
  public func label(_ text: String) { if let lease { SlotRegistry.shared.label(lease, text) } }

  /// Runs `body`; its time is not part of the section's. May be nested.
  ///
  /// - Parameter body: The work that may take its time.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws.
  public func withExemption<Result: ~Copyable, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    lease?.exempt()
    defer { lease?.exemptNoMore() }
    return try body()
  }

  /// Has the Swift runtime look up all that the end of a section takes, under locks of its own, which another thread
  /// could hold when the process is forked in a section.
  static func prepare() { WatchedSection(nil, nil, nil).end() }

  /// The handler, if the section has not ended and the handler has not been claimed. After that ``end()`` returns `false`.
  private func claim() -> SectionHandler? {
    let isFirst = phase.compareExchange(expected: .running, desired: .stalled, ordering: .acquiringAndReleasing)
      .exchanged
    return isFirst ? handler : nil
  }
}

import CCulpritObserver
import CulpritStallRecord
import Synchronization

extension Watchdog {
  /// Runs `body` as a critical section, which stalls when it takes longer than `threshold`.
  ///
  /// `body` is not interrupted. Sections can be nested and can run on many threads at once. `body` runs unwatched if
  /// 4,096 sources are already watched or the watchdog has been stopped.
  ///
  /// - Parameters:
  ///   - name: The section's name in reports.
  ///   - threshold: The longest time the section can take; less than 10 ms counts as 10 ms.
  ///   - body: The work.
  /// - Returns: The result of `body`.
  /// - Throws: The error thrown by `body`.
  public func withSection<Result: ~Copyable, Failure: Error>(
    _ name: String,
    threshold: Duration,
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let section = WatchedSection.begin(name, threshold, activeEngine, number, for: self)
    defer { section.end() }
    return try body()
  }

  /// Runs `body`, which can suspend, as a critical section. Limits and parameters as for the synchronous overload.
  ///
  /// Culprit follows the task from thread to thread, together with its children and the tasks that inherit its
  /// task-local values (`Task { … }`). While the task is suspended, the report shows which of these tasks is running,
  /// or the suspension point. While the task waits for a thread, the report shows the work that occupies the thread.
  public func withSection<Result, Failure: Error>(
    _ name: String,
    threshold: Duration,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws(Failure) -> Result
  ) async throws(Failure) -> Result {
    let section = WatchedSection.begin(name, threshold, activeEngine, number, for: self, ofTask: TaskProbe.current)
    defer { section.end() }
    guard let mark = section.lease.map(SectionMark.init) else { return try await body() }
    // `withValue` loses the type of errors.
    let outcome: Swift.Result<Result, Failure> = await SectionMark.$current.withValue(
      mark,
      operation: {
        do throws(Failure) { return .success(try await body()) } catch { return .failure(error) }
      },
      isolation: isolation
    )
    return try outcome.get()
  }

  /// Runs `body`, which handles a request, as a critical section with a label.
  ///
  ///     try await watchdog.withRequest(label: "GET /orders/4711", threshold: .seconds(2)) { try await handle(request) }
  ///
  /// Combines ``withSection(_:threshold:isolation:_:)`` and ``withLabel(_:isolation:_:)``. The report lists stalls of
  /// other sources with the same label.
  ///
  /// - Parameters:
  ///   - name: The name of the kind of request in reports.
  ///   - label: The request. Text longer than 56 bytes keeps its last 56.
  ///   - threshold: The longest time the request can take; less than 10 ms counts as 10 ms.
  ///   - isolation: The actor that `body` runs on.
  ///   - onStall: As in ``beginSection(_:threshold:onStall:)``.
  ///   - body: The work.
  /// - Returns: The result of `body`.
  /// - Throws: The error thrown by `body`.
  public func withRequest<Result, Failure: Error>(
    name: String = "request",
    label: String,
    threshold: Duration,
    isolation: isolated (any Actor)? = #isolation,
    onStall: (@Sendable (StallEvent) -> Void)? = nil,
    _ body: () async throws(Failure) -> Result
  ) async throws(Failure) -> Result {
    let section = WatchedSection.begin(
      name,
      threshold,
      activeEngine,
      number,
      for: self,
      ofTask: TaskProbe.current,
      onStall: onStall
    )
    defer { section.end() }
    let mark = section.lease.map(SectionMark.init) ?? SectionMark.current
    // Neither `withLabel` nor `withValue` keeps the type of errors.
    let outcome: Swift.Result<Result, Failure> = await Self.withLabel(label, isolation: isolation) {
      await SectionMark.$current.withValue(
        mark,
        operation: {
          do throws(Failure) { return .success(try await body()) } catch { return .failure(error) }
        },
        isolation: isolation
      )
    }
    return try outcome.get()
  }

  /// Begins a critical section of the calling task or thread, which stalls when it takes longer than `threshold`.
  ///
  /// If the function that begins the section returns first, as in code with callbacks, the section is still measured, but
  /// has no culprit: its thread does other work.
  ///
  ///     let section = watchdog.beginSection("import", threshold: .seconds(2))
  ///     defer { section.end() }
  ///
  /// - Parameters:
  ///   - name: The section's name in reports.
  ///   - threshold: The longest time the section can take; less than 10 ms counts as 10 ms.
  ///   - onStall: Called once if the section exceeds its threshold, possibly while it is still in progress. A few
  ///     threads call the handlers of all sections, up to 64 while handlers block. The stall is also reported.
  /// - Returns: The section. The caller must end it.
  public func beginSection(
    _ name: String,
    threshold: Duration,
    onStall: (@Sendable (StallEvent) -> Void)? = nil
  ) -> WatchedSection {
    // A task can continue on another thread after a suspension.
    let task = TaskProbe.shared.hasFailed ? 0 : TaskProbe.current
    return WatchedSection.begin(
      name,
      threshold,
      activeEngine,
      number,
      for: self,
      ofTask: task,
      isOpen: true,
      onStall: onStall
    )
  }
}

/// A critical section of a task or thread, until ``end()`` or the release of its last reference. If the section exceeds
/// its threshold, a stall is reported and the section's handler is called once.
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
  /// Retained, because its release would end the watch.
  private let watchdog: Watchdog?

  private init(_ watchdog: Watchdog?, _ lease: SlotRegistry.Lease?, _ handler: SectionHandler?) {
    self.watchdog = watchdog
    self.lease = lease
    self.handler = handler
  }

  /// `number` is the watchdog's number. Culprit's own sections have no watchdog. `isOpen`: the section can outlive the
  /// calling function, after which its thread does other work.
  @inline(never)
  static func begin(
    _ name: String,
    _ threshold: Duration,
    _ engine: Engine?,
    _ number: UInt64,
    for watchdog: Watchdog? = nil,
    ofTask task: UInt64 = 0,
    isOpen: Bool = false,
    onStall: (@Sendable (StallEvent) -> Void)? = nil
  ) -> WatchedSection {
    let threshold = max(threshold, Configuration.shortestTime)
    let limits = WatchLimits(threshold: threshold, interval: threshold)
    let source = WatchedSource(kind: .section, name: name)
    guard let engine,
      let lease = try? SlotRegistry.shared.lease(
        source,
        of: number,
        for: engine.control,
        threshold: threshold,
        polled: false
      )
    else { return WatchedSection(nil, nil, nil) }
    TaskProbe.shared.startInTask()
    let section = WatchedSection(watchdog, lease, onStall.map { SectionHandler($0) })
    // The handler is set before the work begins, because the section can stall from then on.
    if onStall != nil {
      engine.sectionHandlers.start()
      SlotRegistry.shared.onStall(of: lease) { [weak section] in section?.claim() }
    }
    if task == 0 {
      if isOpen { observer_slot_set_frame(lease.slot) }
      SlotRegistry.shared.begin(lease, suspicion: limits.suspicion)
    } else {
      observer_slot_set_task(lease.slot, task, observer_swift_task_id(task))
      SlotRegistry.shared.begin(lease, for: nil, suspicion: limits.suspicion)
    }
    return section
  }

  static func run(_ name: String, _ threshold: Duration, _ engine: Engine, _ body: () -> Void) {
    let section = begin(name, threshold, engine, 0)
    defer { section.end() }
    body()
  }

  deinit { end() }

  /// Whether the section is watched; `false` if 4,096 sources were already watched, or the watchdog is disabled or
  /// stopped.
  public var isWatched: Bool { lease?.isOurs ?? false }

  /// Ends the section. Can be called from any thread.
  ///
  /// - Returns: Whether the section ended before its handler was called. After `true`, the handler is never called.
  ///   `false` means that the handler has been or will be called, or that the section had already ended. The stall is
  ///   reported in either case.
  @discardableResult
  public func end() -> Bool {
    // Checked first: in a child of fork(2), even the Swift runtime could block on a lock held at the fork.
    if lease?.isOurs == false { return false }
    let isUnclaimed = phase.compareExchange(expected: .running, desired: .ended, ordering: .acquiringAndReleasing)
      .exchanged
    // Without a handler, no other thread claims the section.
    let isFirst = isUnclaimed && (handler != nil || lease.map { !SlotRegistry.shared.isStalled($0) } ?? true)
    guard let lease, !isOver.exchange(true, ordering: .acquiringAndReleasing) else { return isFirst }
    SlotRegistry.shared.end(lease)
    return isFirst
  }

  /// Labels the work like ``WatchedLoop/label(_:)``.
  public func label(_ text: String) { if let lease { SlotRegistry.shared.label(lease, text) } }

  /// Runs `body`, and excludes its time from the section. Can be nested.
  public func withExemption<Result: ~Copyable, Failure: Error>(
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    lease?.exempt()
    defer { lease?.endExemption() }
    return try body()
  }

  /// Makes the Swift runtime perform all lookups needed to end a section. Lookups take runtime locks, which another
  /// thread could hold at a fork.
  static func prepare() { WatchedSection(nil, nil, nil).end() }

  /// Returns the handler if the section is running and unclaimed; ``end()`` then returns `false`.
  private func claim() -> SectionHandler? {
    let isFirst = phase.compareExchange(expected: .running, desired: .stalled, ordering: .acquiringAndReleasing)
      .exchanged
    return isFirst ? handler : nil
  }
}

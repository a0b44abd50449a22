import CulpritStallRecord
import Dispatch

/// A source watched by probes: small jobs that are enqueued repeatedly, one at a time. The waiting time of a probe is
/// the age of the work item.
public final class WatchedProbe: Sendable {
  private let sources: [ProbedSource]
  private let watchdog: Watchdog

  /// Elements are `nil` if the watchdog was not started.
  init(watchdog: Watchdog, sources: [ProbedSource?]) {
    self.watchdog = watchdog
    self.sources = sources.compactMap { $0 }
  }

  deinit { stop() }

  /// Ends the watch. A second call does nothing.
  public func stop() {
    for source in sources { source.stop() }
    watchdog.releaseWatch(of: self)
  }
}

extension Watchdog {
  /// Watches a dispatch queue.
  ///
  /// A block is enqueued an eighth of the threshold after the previous one ran. A block that waits longer than the
  /// threshold is a stall of the queue. For a serial queue, the stall belongs to the thread that is running the queue's
  /// work. The report shows whether the queue is blocked or overloaded.
  ///
  /// - Parameters:
  ///   - queue: The queue.
  ///   - name: The queue's name in reports, unique among watched queues; default: its label.
  ///   - threshold: The longest time a block can wait, at least 10 ms; default: the configuration's.
  ///   - scoped: Whether releasing the watch ends it; otherwise the watch lasts until `stop()`.
  /// - Returns: The watch.
  /// - Throws: ``WatchdogError``.
  @discardableResult
  public func watchQueue(
    _ queue: DispatchQueue,
    named name: String? = nil,
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedProbe {
    let source = WatchedSource(kind: .queue, name: name ?? queue.label)
    let probed = try probed(source, threshold, worker(of: queue)) { run in queue.async(execute: run) }
    return hold(WatchedProbe(watchdog: self, sources: [probed]), scoped: scoped)
  }

  /// Watches the threads on which Swift concurrency runs default actors and tasks that belong to no actor.
  ///
  /// After a probe has waited an eighth of the threshold for a thread, these threads are sampled. After the full
  /// threshold, the report shows how they spent their time. A job that runs for longer than the threshold without
  /// suspending is also a stall, even if other threads are free.
  ///
  /// - Parameters:
  ///   - threshold: The longest time a task can wait for a thread, at least 10 ms; default: the configuration's.
  ///   - scoped: Whether releasing the watch ends it; otherwise the watch lasts until `stop()`.
  /// - Returns: The watch.
  /// - Throws: ``WatchdogError``.
  @discardableResult
  public func watchConcurrency(
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedProbe {
    let source = WatchedSource(kind: .pool, name: "Swift concurrency")
    let threads = try engine.map { engine throws(WatchdogError) in
      try engine.poolWatcher.add(QueueLayout.current) { [weak self] name in
        try? self?.lease(WatchedSource(kind: .job, name: name), threshold, polled: false)
      }
    }
    let worker = threads.map { ProbedSource.Worker.pool($0) }
    do throws(WatchdogError) {
      let probed = try probed(source, threshold, worker ?? .unknown) { run in Task.detached(priority: .medium) { run() }
      }
      return hold(WatchedProbe(watchdog: self, sources: [probed]), scoped: scoped)
    } catch {
      if let threads { engine?.poolWatcher.remove(threads) }
      throw error
    }
  }

  /// Watches the main actor: work that must run on the main thread. Parameters and errors as for
  /// ``watchConcurrency(threshold:scoped:)``.
  @discardableResult
  public func watchMainActor(
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedProbe {
    let source = WatchedSource(kind: .executor, name: "main actor")
    // On Linux the main actor's work goes through the main queue.
    let probed = try probed(source, threshold, worker(of: .main)) { run in
      Task(executorPreference: HandingOver()) { @MainActor in run() }
    }
    return hold(WatchedProbe(watchdog: self, sources: [probed]), scoped: scoped)
  }

  /// Watches a serial executor of Swift concurrency, such as an actor's custom executor.
  ///
  /// The thread that ran the previous probe counts as the executor's thread. If an executor moves between threads,
  /// watch its underlying mechanism, such as a dispatch queue, instead.
  ///
  /// - Parameters:
  ///   - executor: The executor.
  ///   - name: The executor's name in reports; unique among watched executors.
  ///   - threshold: The longest time a job can wait, at least 10 ms; default: the configuration's.
  ///   - scoped: Whether releasing the watch ends it; otherwise the watch lasts until `stop()`.
  /// - Returns: The watch.
  /// - Throws: ``WatchdogError``.
  @discardableResult
  public func watchExecutor(
    _ executor: any SerialExecutor,
    named name: String,
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedProbe {
    let source = WatchedSource(kind: .executor, name: name)
    let visitor = ExecutorVisitor(executor)
    let queue = executor as? DispatchQueue
    let worker = queue.map { self.worker(of: $0) } ?? .threadOfLastProbe
    let probed = try probed(source, threshold, worker, isHandedOver: queue == nil) { run in
      Task(executorPreference: HandingOver()) { await visitor.visit(run) }
    }
    return hold(WatchedProbe(watchdog: self, sources: [probed]), scoped: scoped)
  }

  /// Watches an event loop of any library by a probe: a closure that is submitted to the loop again and again. A
  /// closure that waits longer than the threshold is a stall of the loop.
  ///
  ///     try watchdog.watchLoop(named: "http") { probe in eventLoop.execute { probe() } }
  ///
  /// The loop must stay on its thread: reports show the stack of the thread that ran the previous probe.
  ///
  /// - Parameters:
  ///   - name: The loop's name in reports; unique among watched loops.
  ///   - threshold: The longest time a closure can wait, at least 10 ms; default: the configuration's.
  ///   - scoped: Whether releasing the watch ends it; otherwise the watch lasts until `stop()`.
  ///   - execute: Submits the closure to the loop, and returns. Called on a thread of the watchdog.
  /// - Returns: The watch.
  /// - Throws: ``WatchdogError``.
  @discardableResult
  public func watchLoop(
    named name: String,
    threshold: Duration? = nil,
    scoped: Bool = false,
    execute: @escaping @Sendable (_ probe: @escaping @Sendable () -> Void) -> Void
  ) throws(WatchdogError) -> WatchedProbe {
    hold(try watchLoops(named: name, threshold: threshold, execute: [execute], isGroup: false), scoped: scoped)
  }

  /// Watches a group of event loops, each with its own thread, by one closure for each loop as in
  /// ``watchLoop(named:threshold:scoped:execute:)``. In reports, a loop has the group's name and its number, starting
  /// at 1. After an error, no loop is watched.
  @discardableResult
  public func watchLoops(
    named name: String,
    threshold: Duration? = nil,
    scoped: Bool = false,
    execute: [@Sendable (@escaping @Sendable () -> Void) -> Void]
  ) throws(WatchdogError) -> WatchedProbe {
    hold(try watchLoops(named: name, threshold: threshold, execute: execute, isGroup: true), scoped: scoped)
  }

  private func watchLoops(
    named name: String,
    threshold: Duration?,
    execute: [@Sendable (@escaping @Sendable () -> Void) -> Void],
    isGroup: Bool
  ) throws(WatchdogError) -> WatchedProbe {
    var sources: [ProbedSource?] = []
    do throws(WatchdogError) {
      for (index, send) in execute.enumerated() {
        let source = WatchedSource(kind: .probedLoop, name: isGroup ? "\(name) #\(index + 1)" : name)
        sources.append(try probed(source, threshold, .threadOfLastProbe, isHandedOver: true, send))
      }
    } catch {
      for source in sources { source?.stop() }
      throw error
    }
    return WatchedProbe(watchdog: self, sources: sources)
  }

  /// Returns the memory addresses of the queue's owner and head.
  private func worker(of queue: DispatchQueue) -> ProbedSource.Worker {
    guard !isDisabled, let layout = QueueLayout.current else { return .unknown }
    return .addresses(owner: layout.ownerTIDAddress(of: queue), queueHead: layout.queueHeadAddress(of: queue)) {
      layout.isDrainedByCaller(queue)
    }
  }

  /// Returns `nil` when the watchdog was not started. With `isHandedOver`, `send` calls application code.
  private func probed(
    _ source: WatchedSource,
    _ threshold: Duration?,
    _ worker: ProbedSource.Worker,
    isHandedOver: Bool = false,
    _ send: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
  ) throws(WatchdogError) -> ProbedSource? {
    guard !isDisabled else { return nil }
    // The work that delays a probe might be a task.
    if source.kind == .executor { TaskProbe.shared.start() }
    let lease = try lease(source, threshold, polled: false)
    guard let prober = engine?.prober else { return nil }
    return try ProbedSource(
      source,
      lease: lease,
      worker: worker,
      prober: prober,
      isHandedOver: isHandedOver,
      send: send
    )
  }
}

/// Enqueues work on an actor from the thread that creates the task: the pool itself might be stuck.
private final class HandingOver: TaskExecutor {
  func enqueue(_ job: consuming ExecutorJob) { UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor()) }
}

private actor ExecutorVisitor {
  private let executor: any SerialExecutor

  init(_ executor: any SerialExecutor) { self.executor = executor }

  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  func visit(_ run: @Sendable () -> Void) { run() }
}

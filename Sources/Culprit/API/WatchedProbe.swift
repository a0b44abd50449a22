import CulpritStallRecord
import Dispatch

/// A source that is watched by probes, until ``stop()``, or until the watch is released if it is scoped.
///
/// A probe is a small job that is enqueued again and again. Its wait is the work item.
public final class WatchedProbe: Sendable {
  private let sources: [PingedSource]
  private let watchdog: Watchdog

  /// Watches `sources`, of which those are `nil` that a watchdog that was not started does not ping.
  init(watchdog: Watchdog, sources: [PingedSource?]) {
    self.watchdog = watchdog
    self.sources = sources.compactMap { $0 }
  }

  deinit { stop() }

  /// Ends the watch. The second call does nothing.
  public func stop() {
    for source in sources { source.stop() }
    watchdog.letGo(of: self)
  }
}

extension Watchdog {
  /// Watches a dispatch queue, the main queue for one.
  ///
  /// A small block is enqueued again and again, one at a time, each an eighth of the threshold after the previous one
  /// ran. A block that waits longer than the threshold is a stall of the queue: of the thread that works on it then,
  /// where the queue is serial. The report says whether the queue stands still or only has more work than it can do.
  ///
  /// - Parameters:
  ///   - queue: The queue.
  ///   - name: The queue's name in reports; default (`nil`): its label. No two queues of the same name can be watched
  ///     at a time.
  ///   - threshold: How long a block may wait, at least 10 ms; default (`nil`): the configuration's.
  ///   - scoped: Whether the watch ends when it is released; default: it lasts until it is stopped.
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
    let pinged = try pinged(source, threshold, worker(of: queue)) { run in queue.async(execute: run) }
    return hold(WatchedProbe(watchdog: self, sources: [pinged]), scoped: scoped)
  }

  /// Watches the threads on which Swift concurrency runs tasks that belong to no actor, and default actors.
  ///
  /// A small task is started again and again. From an eighth of the threshold on that it waits for a thread, the threads that
  /// run tasks are sampled; when it has waited for the threshold, the report says what took their time.
  ///
  /// A job that one thread runs for longer than the threshold without a pause is a stall, too, whether or not other threads are
  /// free.
  ///
  /// - Parameters:
  ///   - threshold: How long a task may wait for a thread, at least 10 ms; default (`nil`): the configuration's.
  ///   - scoped: Whether the watch ends when it is released; default: it lasts until it is stopped.
  /// - Returns: The watch.
  /// - Throws: ``WatchdogError``.
  @discardableResult
  public func watchConcurrency(
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedProbe {
    let source = WatchedSource(kind: .pool, name: "Swift concurrency")
    let threads = try core.map { core throws(WatchdogError) in
      try core.poolWatcher.add(QueueLayout.current) { [weak self] name in
        try? self?.lease(WatchedSource(kind: .job, name: name), threshold, polled: false)
      }
    }
    let worker = threads.map { PingedSource.Worker.pool($0) }
    do throws(WatchdogError) {
      let pinged = try pinged(source, threshold, worker ?? .unknown) { run in Task.detached(priority: .medium) { run() }
      }
      return hold(WatchedProbe(watchdog: self, sources: [pinged]), scoped: scoped)
    } catch {
      if let threads { core?.poolWatcher.remove(threads) }
      throw error
    }
  }

  /// Watches the main actor: work that must run on the main thread.
  ///
  /// - Parameters:
  ///   - threshold: How long such work may wait, at least 10 ms; default (`nil`): the configuration's.
  ///   - scoped: Whether the watch ends when it is released; default: it lasts until it is stopped.
  /// - Returns: The watch.
  /// - Throws: ``WatchdogError``.
  @discardableResult
  public func watchMainActor(
    threshold: Duration? = nil,
    scoped: Bool = false
  ) throws(WatchdogError) -> WatchedProbe {
    let source = WatchedSource(kind: .executor, name: "main actor")
    // On Linux the main actor's work goes through the main queue.
    let pinged = try pinged(source, threshold, worker(of: .main)) { run in
      Task(executorPreference: HandingOver()) { @MainActor in run() }
    }
    return hold(WatchedProbe(watchdog: self, sources: [pinged]), scoped: scoped)
  }

  /// Watches a serial executor of Swift concurrency: an actor's own.
  ///
  /// The thread that ran the previous probe counts as the executor's thread. Watch an executor that moves from thread
  /// to thread by what it runs on: a dispatch queue, for one.
  ///
  /// - Parameters:
  ///   - executor: The executor.
  ///   - name: Its name in reports. No two executors of the same name can be watched at a time.
  ///   - threshold: How long a job may wait, at least 10 ms; default (`nil`): the configuration's.
  ///   - scoped: Whether the watch ends when it is released; default: it lasts until it is stopped.
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
    let worker = queue.map { self.worker(of: $0) } ?? .threadOfLastPing
    let pinged = try pinged(source, threshold, worker, isHandedOver: queue == nil) { run in
      Task(executorPreference: HandingOver()) { await visitor.visit(run) }
    }
    return hold(WatchedProbe(watchdog: self, sources: [pinged]), scoped: scoped)
  }

  /// Watches an event loop of any library, by closures that are put into it.
  ///
  ///     try watchdog.watchLoop(named: "http") { probe in eventLoop.execute { probe() } }
  ///
  /// The loop must stay on its thread: the stack is that of the thread that ran the previous probe.
  ///
  /// - Parameters:
  ///   - name: What reports call the loop. No two of the same name can be watched at a time.
  ///   - threshold: How long a closure may wait, at least 10 ms; default (`nil`): the configuration's.
  ///   - scoped: Whether the watch ends when it is released; default: it lasts until it is stopped.
  ///   - execute: Puts the closure into the loop, and returns. Called on a thread of the watchdog's own.
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

  /// Watches a group of event loops, each with a thread of its own. Reports call them by the group's name and their
  /// number, from 1.
  ///
  /// - Parameters:
  ///   - name: The group's name in reports.
  ///   - threshold: How long a closure may wait, at least 10 ms; default (`nil`): the configuration's.
  ///   - scoped: Whether the watch ends when it is released; default: it lasts until it is stopped.
  ///   - execute: For each loop, a closure that puts its argument into the loop.
  /// - Returns: The watch of all of them.
  /// - Throws: ``WatchdogError``; no loop is watched then.
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
    var sources: [PingedSource?] = []
    do throws(WatchdogError) {
      for (index, send) in execute.enumerated() {
        let source = WatchedSource(kind: .pinged, name: isGroup ? "\(name) #\(index + 1)" : name)
        sources.append(try pinged(source, threshold, .threadOfLastPing, isHandedOver: true, send))
      }
    } catch {
      for source in sources { source?.stop() }
      throw error
    }
    return WatchedProbe(watchdog: self, sources: sources)
  }

  /// Who works on `queue`.
  private func worker(of queue: DispatchQueue) -> PingedSource.Worker {
    guard !isDisabled, let layout = QueueLayout.current else { return .unknown }
    return .addresses(owner: layout.ownerTIDAddress(of: queue), queueHead: layout.queueHeadAddress(of: queue)) {
      layout.isDrainedByCaller(queue)
    }
  }

  /// A source that is pinged, by code of the application where it is handed over; `nil` when the watchdog was not started.
  private func pinged(
    _ source: WatchedSource,
    _ threshold: Duration?,
    _ worker: PingedSource.Worker,
    isHandedOver: Bool = false,
    _ send: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
  ) throws(WatchdogError) -> PingedSource? {
    guard !isDisabled else { return nil }
    // What is found in the way may be a task.
    if source.kind == .executor { TaskProbe.shared.start() }
    let lease = try lease(source, threshold, polled: false)
    guard let pinger = core?.pinger else { return nil }
    return try PingedSource(
      source,
      lease: lease,
      worker: worker,
      pinger: pinger,
      isHandedOver: isHandedOver,
      send: send
    )
  }
}

/// Runs the part of a task that hands work over to an actor at once, where the task is made: not on a thread of the
/// pool, which may be what is stuck.
private final class HandingOver: TaskExecutor {
  func enqueue(_ job: consuming ExecutorJob) { UnownedJob(job).runSynchronously(on: asUnownedTaskExecutor()) }
}

/// An actor on a given executor: what is called on it runs there.
private actor ExecutorVisitor {
  private let executor: any SerialExecutor

  init(_ executor: any SerialExecutor) { self.executor = executor }

  nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

  func visit(_ run: @Sendable () -> Void) { run() }
}

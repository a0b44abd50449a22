import CCulpritLinux
import CCulpritObserver
import CulpritStallRecord

/// Sends pings to sources whose work cannot be marked: queues, executors, other libraries' loops.
///
/// A ping is a work item from its sending until it runs. Each source has at most one outstanding ping, so a stalled
/// source is not flooded. ``ProbeEnqueuers`` sends pings through code of the application.
final class Prober: Sendable {
  private struct State {
    var sources: [ProbedSource] = []
    var isStopping = false
  }

  private let state = Mutex(State())
  private let wake = WakeUp()
  private let thread = OnDemandThread()
  private let enqueuers = ProbeEnqueuers()

  /// The first source starts the thread.
  func add(_ source: ProbedSource) throws(WatchdogError) {
    guard !source.isHandedOver else { return try enqueuers.add(source) }
    try thread.start(name: "culprit-ping") { [self] in run() }
    state.withLock { $0.sources.append(source) }
    wake.notify()
  }

  func remove(_ source: ProbedSource) {
    state.withLock { $0.sources.removeAll { $0 === source } }
    enqueuers.remove(source)
  }

  /// A sentence for each source that gets no pings because a closure of the application has not returned.
  var problems: [String] { enqueuers.problems }

  /// Waits until `deadline` for a ping that is being sent, unless the caller sends it. Returns whether none remains.
  func stop(until deadline: UInt64) -> Bool {
    state.withLock { state in
      state.isStopping = true
      state.sources = []
    }
    wake.notify()
    let hasEnded = thread.join(until: deadline)
    return enqueuers.stop(until: deadline) && hasEnded
  }

  private func run() {
    while true {
      let seen = wake.seen
      let (sources, isStopping) = state.withLock { ($0.sources, $0.isStopping) }
      if isStopping { return }
      var next = UInt64.max
      for source in sources { next = min(next, source.probeIfDue()) }
      wake.wait(after: seen, until: next)
    }
  }
}

final class ProbedSource: Sendable {
  enum Worker: Sendable {
    /// For loops that stay on one thread.
    case threadOfLastProbe
    /// The thread named by words in memory. Each ping calls `check`, which returns whether the words are right.
    case addresses(owner: UInt64, queueHead: UInt64, check: @Sendable () -> Bool)
    case pool(PoolThreads)
    case unknown
  }

  /// An unreadable address, for sources whose thread is unknown.
  static let nowhere: UInt64 = 1

  private struct State: @unchecked Sendable {
    // SAFETY: thread entries are never freed. The pointer is used under the mutex, and its use count detects reuse.
    var isOutstanding = false
    /// The number of the last ping.
    var number: UInt64 = 0
    var isStopped = false
    var next: UInt64 = 0
    var thread: UnsafeMutablePointer<observer_thread>?
    /// The use count of the thread's entry when the thread was recorded.
    var threadUse: UInt32 = 0
    /// Whether every ping so far has confirmed the words.
    var wordsHold = true
  }

  let description: String
  /// Whether `send` calls code of the application, which might not return.
  let isHandedOver: Bool
  private let lease: SlotRegistry.Lease
  private let state = Mutex(State())
  private let worker: Worker
  private let send: @Sendable (@escaping @Sendable () -> Void) -> Void
  private let prober: Prober

  /// `send` passes its argument to the source, which must call it in turn.
  init(
    _ source: WatchedSource,
    lease: SlotRegistry.Lease,
    worker: Worker,
    prober: Prober,
    isHandedOver: Bool,
    send: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
  ) throws(WatchdogError) {
    description = "\(source.kind.description) \"\(source.name)\""
    self.isHandedOver = isHandedOver
    self.lease = lease
    self.worker = worker
    let mask = HandlerMask()
    // Only Culprit's own `send` delays a fork(2); the application's code can take any time.
    self.send = { ping in
      mask.run { if isHandedOver { send(ping) } else { blockingFork { send(ping) } } }
    }
    self.prober = prober
    switch worker {
    case .threadOfLastProbe: break
    case .addresses(let owner, let queueHead, _): observer_slot_set_addresses(lease.slot, owner, queueHead)
    case .pool(let threads):
      observer_slot_set_owners(lease.slot, threads.owners.pointer)
      threads.follow(lease)
    case .unknown: observer_slot_set_addresses(lease.slot, Self.nowhere, 0)
    }
    do {
      try prober.add(self)
    } catch {
      SlotRegistry.shared.end(lease)
      throw error
    }
  }

  /// Returns the time of the next call in nanoseconds.
  func probeIfDue() -> UInt64 {
    let now = clinux_clock_ns()
    let suspicion = lease.slot.suspicion
    guard suspicion != .max else { return now &+ Self.intervalWhileOff }
    let interval = Self.interval(suspicion)
    let (number, next, thread) = state.withLock { state in
      guard !state.isStopped, !state.isOutstanding, now >= state.next else {
        return (nil as UInt64?, state.isOutstanding ? now &+ interval : state.next, nil as LastThread?)
      }
      state.isOutstanding = true
      state.number &+= 1
      // The entry might belong to another thread by now.
      let isSame = state.thread.map { observer_thread_is_still($0, state.threadUse) } ?? false
      return (state.number, now &+ interval, LastThread(pointer: isSame ? state.thread : nil))
    }
    guard let number else {
      if case .pool(let threads) = worker, hasWaited(now, interval) { threads.probeWaits() }
      return next
    }
    // Sending takes time, especially without a CPU. This time is not a stall of the source.
    let suspicionTime = Duration(wholeNanoseconds: suspicion)
    SlotRegistry.shared.begin(lease, for: thread?.pointer, suspicion: suspicionTime, after: Self.sendingMax)
    // Probe latency measures how long newly submitted work waits.
    let sent = clinux_clock_ns()
    send { [self] in answered(number, sentAt: sent) }
    let waits = state.withLock { state in
      guard state.isOutstanding, state.number == number, !state.isStopped else { return false }
      observer_slot_begin_for(lease.slot, thread?.pointer, clinux_clock_ns())
      return true
    }
    if waits { SlotRegistry.shared.tick(after: suspicionTime) }
    return next
  }

  private func hasWaited(_ now: UInt64, _ interval: UInt64) -> Bool {
    let item = lease.slot.item
    return item != 0 && now >= item &+ interval
  }

  /// Longer sending counts as waiting for the source.
  private static let sendingMax = Duration.seconds(1)

  private static let intervalWhileOff: UInt64 = 1_000_000_000

  private static func interval(_ suspicion: UInt64) -> UInt64 {
    suspicion == .max ? intervalWhileOff : max(Configuration.shortestTime.wholeNanoseconds, suspicion)
  }

  private struct LastThread: @unchecked Sendable {
    // SAFETY: thread entries are never freed, and the use count was checked under the mutex.
    var pointer: UnsafeMutablePointer<observer_thread>?
  }

  /// Called in the source by the ping.
  private func answered(_ number: UInt64, sentAt sent: UInt64) {
    let now = clinux_clock_ns()
    // A child of fork(2) can inherit the ping, but its parent owns the slot.
    guard lease.isOurs else { return }
    if case .pool(let threads) = worker { threads.probeIsAnswered() }
    var holds = true
    if case .addresses(_, _, let check) = worker { holds = check() }
    let isLast = state.withLock { state in
      // A library that runs a ping twice must not end a later ping.
      guard state.isOutstanding, state.number == number else { return false }
      lease.slot.end()
      observer_series_probe(lease.series.counts, clinux_clock_between_ns(sent, now))
      state.isOutstanding = false
      state.next = clinux_clock_ns() &+ Self.interval(lease.slot.suspicion)
      if case .threadOfLastProbe = worker {
        state.thread = observer_thread_current()
        state.threadUse = state.thread.map { observer_thread_use($0) } ?? 0
      }
      if !holds, state.wordsHold {
        state.wordsHold = false
        observer_slot_set_addresses(lease.slot, Self.nowhere, 0)
      }
      return state.isStopped
    }
    if isLast { SlotRegistry.shared.end(lease) }
  }

  /// An outstanding ping keeps the slot until it has run.
  func stop() {
    // A child of fork(2) has no prober thread.
    guard lease.isOurs else { return }
    prober.remove(self)
    let isOutstanding: Bool? = state.withLock { state in
      guard !state.isStopped else { return nil }
      state.isStopped = true
      return state.isOutstanding
    }
    if case .pool(let threads) = worker { threads.end() }
    switch isOutstanding {
    case .some(true): SlotRegistry.shared.stop(lease)
    case .some(false): SlotRegistry.shared.end(lease)
    case .none: break
    }
  }
}

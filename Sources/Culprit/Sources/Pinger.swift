import CCulpritLinux
import CCulpritObserver
import CulpritStallRecord
import Glibc
import Synchronization

/// What sends pings to what has no begin and end that could be marked: queues, executors, other libraries' loops.
///
/// A ping is a work item: it begins when it has been sent and ends when it is run. Each source has one outstanding
/// at a time, so that a source that is stuck is not filled up with pings. Where code of the application hands them over,
/// that is done by threads for it (``HandOvers``).
final class Pinger: Sendable {
  private struct State {
    var sources: [PingedSource] = []
    var isStopping = false
  }

  private let state = Mutex(State())
  private let wake = WakeUp()
  private let thread = Mutex<PosixThread?>(nil)
  private let handOvers = HandOvers()

  /// Sends pings to `source` from now on. The thread is started with the first source.
  ///
  /// - Throws: ``WatchdogError/Code/unsupported`` when the thread cannot be started.
  func add(_ source: PingedSource) throws(WatchdogError) {
    guard !source.isHandedOver else {
      do throws(PosixThreadError) { return try handOvers.add(source) } catch { throw .threadNotStarted(error) }
    }
    let error: PosixThreadError? = thread.withLock { thread in
      guard thread == nil else { return nil }
      do throws(PosixThreadError) {
        thread = try PosixThread(name: "culprit-ping") { [self] in run() }
        return nil
      } catch {
        return error
      }
    }
    if let error { throw .threadNotStarted(error) }
    state.withLock { $0.sources.append(source) }
    wake.notify()
  }

  /// Sends no more pings to `source`.
  func remove(_ source: PingedSource) {
    state.withLock { $0.sources.removeAll { $0 === source } }
    handOvers.remove(source)
  }

  /// What is not pinged because the application does not let go of a ping, in sentences.
  var problems: [String] { handOvers.problems }

  /// Sends no more pings, and waits until none is being sent, until `deadline` at most, unless it is called by what
  /// sends one. Returns whether none is.
  func stop(until deadline: UInt64) -> Bool {
    state.withLock { state in
      state.isStopping = true
      state.sources = []
    }
    wake.notify()
    let hasEnded = thread.withLock { $0 }?.join(until: deadline) ?? true
    return handOvers.stop(until: deadline) && hasEnded
  }

  private func run() {
    while true {
      let seen = wake.seen
      let (sources, isStopping) = state.withLock { ($0.sources, $0.isStopping) }
      if isStopping { return }
      var next = UInt64.max
      for source in sources { next = min(next, source.pingIfDue()) }
      wake.wait(after: seen, until: next)
    }
  }
}

/// Something that is watched by pings.
final class PingedSource: Sendable {
  /// Where the source says who works on it.
  enum Worker: Sendable {
    /// The thread that ran the ping before, if the thread has not ended since: a loop that stays on its thread.
    case threadOfLastPing
    /// Where the words say it. `check` is called by each ping and tells whether they can be believed.
    case addresses(owner: UInt64, queueHead: UInt64, check: @Sendable () -> Bool)
    /// The threads of a pool, several at a time.
    case pool(PoolThreads)
    /// Nobody knows.
    case unknown
  }

  /// An address that cannot be read: whoever asks there for a thread is told that there is none.
  static let nowhere: UInt64 = 1

  private struct State {
    var isOutstanding = false
    /// The number of the last ping that was sent: a library may run an earlier one once more.
    var number: UInt64 = 0
    var isStopped = false
    var next: UInt64 = 0
    var thread: UnsafeMutablePointer<observer_thread>?
    /// Which use of the thread's entry was that thread's.
    var threadUse: UInt32 = 0
    /// Whether every ping so far has found the words right.
    var wordsHold = true
  }

  private struct Guarded: @unchecked Sendable {
    // SAFETY: entries of threads are never freed; the pointer is used under the mutex and checked by the number of its
    // use.
    var state = State()
  }

  /// What people call it.
  let description: String
  /// Whether code of the application hands pings over, which may not return.
  let isHandedOver: Bool
  private let lease: SlotRegistry.Lease
  private let guarded = Mutex(Guarded())
  private let worker: Worker
  private let send: @Sendable (@escaping @Sendable () -> Void) -> Void
  private let pinger: Pinger

  /// Watches through `lease`.
  ///
  /// - Parameters:
  ///   - source: What is watched.
  ///   - lease: The source's slot.
  ///   - worker: Who works on the source.
  ///   - pinger: What sends the pings.
  ///   - isHandedOver: Whether `send` is code of the application.
  ///   - send: Hands its argument over, to be called by the source when it is its turn.
  /// - Throws: ``WatchdogError/Code/unsupported`` when the pinger's thread cannot be started.
  init(
    _ source: WatchedSource,
    lease: SlotRegistry.Lease,
    worker: Worker,
    pinger: Pinger,
    isHandedOver: Bool,
    send: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void
  ) throws(WatchdogError) {
    description = "\(source.kind.description) \"\(source.name)\""
    self.isHandedOver = isHandedOver
    self.lease = lease
    self.worker = worker
    let mask = HandlerMask()
    // What the library hands over itself makes use of the runtime; the application's code may take as long as it likes.
    self.send = { ping in
      mask.run { if isHandedOver { send(ping) } else { working { send(ping) } } }
    }
    self.pinger = pinger
    switch worker {
    case .threadOfLastPing: break
    case .addresses(let owner, let queueHead, _): observer_slot_set_addresses(lease.slot, owner, queueHead)
    case .pool(let threads):
      observer_slot_set_owners(lease.slot, threads.owners.pointer)
      threads.follow(lease)
    case .unknown: observer_slot_set_addresses(lease.slot, Self.nowhere, 0)
    }
    do {
      try pinger.add(self)
    } catch {
      SlotRegistry.shared.end(lease)
      throw error
    }
  }

  /// Sends a ping, if it is time to. Returns when to call again, on the observer's clock.
  func pingIfDue() -> UInt64 {
    let now = clinux_clock_ns()
    let suspicion = observer_slot_suspicion_ns(lease.slot)
    guard suspicion != .max else { return now &+ Self.intervalWhileOff }
    let interval = Self.interval(suspicion)
    let (number, next, thread) = guarded.withLock { guarded in
      let state = guarded.state
      guard !state.isStopped, !state.isOutstanding, now >= state.next else {
        return (nil as UInt64?, state.isOutstanding ? now &+ interval : state.next, nil as LastThread?)
      }
      guarded.state.isOutstanding = true
      guarded.state.number &+= 1
      // The entry may be another thread's by now.
      let isSame = state.thread.map { observer_thread_is_still($0, state.threadUse) } ?? false
      return (guarded.state.number, now &+ interval, LastThread(pointer: isSame ? state.thread : nil))
    }
    guard let number else {
      if case .pool(let threads) = worker, hasWaited(now, interval) { threads.pingWaits() }
      return next
    }
    // Sending it takes its time, above all where this thread has no processor: that is no time in which the source is
    // stuck.
    let suspicionTime = Duration(wholeNanoseconds: suspicion)
    SlotRegistry.shared.begin(lease, for: thread?.pointer, suspicion: suspicionTime, after: Self.sendingMax)
    // Its latency is what work that is handed over now waits: it begins here.
    let sent = clinux_clock_ns()
    send { [self] in answered(number, sentAt: sent) }
    let waits = guarded.withLock { guarded in
      guard guarded.state.isOutstanding, guarded.state.number == number, !guarded.state.isStopped else { return false }
      observer_slot_begin_for(lease.slot, thread?.pointer, clinux_clock_ns())
      return true
    }
    if waits { SlotRegistry.shared.tick(after: suspicionTime) }
    return next
  }

  /// Whether a ping has been waiting for `interval` at the time `now`.
  private func hasWaited(_ now: UInt64, _ interval: UInt64) -> Bool {
    let item = observer_slot_work_item(lease.slot)
    return item != 0 && now >= item &+ interval
  }

  /// A ping that is being sent for longer than this waits for its source.
  private static let sendingMax = Duration.seconds(1)

  /// How often the watchdog is asked whether it has been switched on.
  private static let intervalWhileOff: UInt64 = 1_000_000_000

  /// The time between pings that are suspected after `suspicion`.
  private static func interval(_ suspicion: UInt64) -> UInt64 {
    suspicion == .max ? intervalWhileOff : max(Configuration.shortestTime.wholeNanoseconds, suspicion)
  }

  private struct LastThread: @unchecked Sendable {
    // SAFETY: as for Guarded.
    var pointer: UnsafeMutablePointer<observer_thread>?
  }

  /// Runs in the source, when it is the turn of the ping with this number.
  private func answered(_ number: UInt64, sentAt sent: UInt64) {
    let now = clinux_clock_ns()
    // A child of fork(2) may have inherited the ping; the slot is its parent's.
    guard lease.isOurs else { return }
    if case .pool(let threads) = worker { threads.pingIsAnswered() }
    var holds = true
    if case .addresses(_, _, let check) = worker { holds = check() }
    let isLast = guarded.withLock { guarded in
      // A library that runs it twice ends nothing twice, nor what was sent later.
      guard guarded.state.isOutstanding, guarded.state.number == number else { return false }
      observer_slot_end(lease.slot)
      observer_series_probe(lease.series.counts, clinux_clock_between_ns(sent, now))
      guarded.state.isOutstanding = false
      guarded.state.next = clinux_clock_ns() &+ Self.interval(observer_slot_suspicion_ns(lease.slot))
      if case .threadOfLastPing = worker {
        guarded.state.thread = observer_thread_current()
        guarded.state.threadUse = guarded.state.thread.map { observer_thread_use($0) } ?? 0
      }
      if !holds, guarded.state.wordsHold {
        guarded.state.wordsHold = false
        observer_slot_set_addresses(lease.slot, Self.nowhere, 0)
      }
      return guarded.state.isStopped
    }
    if isLast { SlotRegistry.shared.end(lease) }
  }

  /// Sends no more pings and ends the watch. One that is outstanding keeps its slot until it comes back.
  func stop() {
    // What sends pings is not there in a child of fork(2).
    guard lease.isOurs else { return }
    pinger.remove(self)
    let isOutstanding: Bool? = guarded.withLock { guarded in
      guard !guarded.state.isStopped else { return nil }
      guarded.state.isStopped = true
      return guarded.state.isOutstanding
    }
    if case .pool(let threads) = worker { threads.end() }
    switch isOutstanding {
    case .some(true): SlotRegistry.shared.stop(lease)
    case .some(false): SlotRegistry.shared.end(lease)
    case .none: break
    }
  }
}

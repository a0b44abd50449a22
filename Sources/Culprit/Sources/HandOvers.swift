import CCulpritLinux
import Synchronization

/// The threads that send the pings of those sources whose pings the application hands over.
///
/// One of them leads: it sends them in turn. One that has been in the same hand-over for a second leads no more: another
/// one, which has been there since before, sends the rest. So what the application holds up is its own source only.
final class HandOvers: Sendable {
  /// A hand-over that takes longer than this holds up nobody else.
  static let patience: UInt64 = 1_000_000_000
  /// The most threads, those included that are in a hand-over that does not end.
  private static let threadsMax = 8

  private struct HandOver {
    var source: PingedSource
    var since: UInt64
  }

  private struct State {
    var sources: [PingedSource] = []
    /// The hand-over that the leader is in.
    var current: HandOver?
    /// Those of threads that led before.
    var heldUp: [HandOver] = []
    /// The number of the thread that leads.
    var leader: Int?
    /// When the leader is to look next.
    var next: UInt64 = 0
    /// How often it has been called before that.
    var calls = 0
    var threads: [Int: PosixThread] = [:]
    var threadsMade = 0
    /// Whether another one is just being made.
    var isMaking = false
    var isStopping = false

    /// How many threads wait to lead.
    var spares: Int { threads.count - 1 - heldUp.count }
  }

  private let state = Mutex(State())
  private let isStarted = Mutex(false)
  /// What the leader waits on, and what the others do.
  private let wake = WakeUp()
  private let spareWake = WakeUp()

  /// Sends pings to `source` from now on. The threads are started with the first source.
  func add(_ source: PingedSource) throws(PosixThreadError) {
    let error: PosixThreadError? = isStarted.withLock { isStarted in
      do throws(PosixThreadError) {
        if !isStarted { try start() }
      } catch {
        return error
      }
      // Who is to take over is there before that is needed: a thread cannot be made in every stall.
      if !isStarted { try? start() }
      isStarted = true
      return nil
    }
    if let error { throw error }
    callLeader { $0.sources.append(source) }
  }

  /// Has the leader look at once, and who waits to lead see to it that he comes back, once `change` has been made.
  private func callLeader(_ change: (inout State) -> Void) {
    state.withLock { state in
      change(&state)
      state.calls += 1
      state.next = 0
    }
    wake.notify()
    spareWake.notify()
  }

  /// Sends no more pings to `source`.
  func remove(_ source: PingedSource) { state.withLock { $0.sources.removeAll { $0 === source } } }

  /// Sends no more pings, and waits until none is being sent, until `deadline` at most. Returns whether none is.
  func stop(until deadline: UInt64) -> Bool {
    let threads = state.withLock { state in
      state.isStopping = true
      state.sources = []
      return Array(state.threads.values)
    }
    wake.notify()
    spareWake.notify()
    return threads.map { $0.join(until: deadline) }.allSatisfy { $0 }
  }

  /// Which hand-overs do not end, in sentences.
  var problems: [String] {
    let now = clinux_clock_ns()
    let (current, heldUp, spares) = state.withLock { ($0.current, $0.heldUp, $0.spares) }
    let late = (heldUp + [current].compactMap { $0 }).filter { now > $0.since &+ Self.patience }
    var sentences = late.map { handOver in
      let time = Duration.seconds(Int64(clinux_clock_between_ns(handOver.since, now) / 1_000_000_000))
      let source = handOver.source.description
      return "no probe is put into \(source): the closure that does it has not returned for \(time)"
    }
    if let current, late.contains(where: { $0.source === current.source }), spares <= 0 {
      sentences.append("no probe is put into any other event loop until one of these closures returns")
    }
    return sentences
  }

  /// Starts another thread. Not under the lock: the kernel may hold up who makes one.
  private func start() throws(PosixThreadError) {
    let number = state.withLock { state in
      defer { state.threadsMade += 1 }
      return state.threadsMade
    }
    let thread = try PosixThread(name: "culprit-enqueue") { [self] in run(number) }
    state.withLock { state in
      if state.threads.isEmpty { state.leader = number }
      state.threads[number] = thread
    }
  }

  /// Makes sure that another thread can take over: before the application's code is called again by one that has taken
  /// over itself. Where there is none, it is tried again.
  private func startSpare() {
    let isWanted = state.withLock { state in
      guard state.spares < 1, state.threads.count < Self.threadsMax, !state.isMaking, !state.isStopping else {
        return false
      }
      state.isMaking = true
      return true
    }
    guard isWanted else { return }
    try? start()
    state.withLock { $0.isMaking = false }
  }

  private func run(_ number: Int) {
    while true {
      let (isStopping, isLeading) = state.withLock { ($0.isStopping, $0.leader == number) }
      if isStopping { return }
      if isLeading { lead(number) } else if !waitToLead(number) { return }
    }
  }

  /// Sends what is due, and waits for what is next.
  private func lead(_ number: Int) {
    let seen = wake.seen
    startSpare()
    let (sources, calls) = state.withLock { state in
      (state.sources.filter { source in !state.heldUp.contains { $0.source === source } }, state.calls)
    }
    var next = UInt64.max
    for source in sources {
      let isLeading = state.withLock { state in
        guard state.leader == number, !state.isStopping else { return false }
        state.current = HandOver(source: source, since: clinux_clock_ns())
        return true
      }
      guard isLeading else { return }
      next = min(next, source.pingIfDue())
      let isReplaced = state.withLock { state in
        if state.leader == number { state.current = nil }
        return state.leader != number
      }
      // Its source is pinged again by who leads now.
      if isReplaced {
        callLeader { state in state.heldUp.removeAll { $0.source === source } }
        return
      }
    }
    state.withLock { if $0.calls == calls { $0.next = next } }
    wake.wait(after: seen, until: next)
  }

  /// Waits until the leader does not come back, and leads then. Returns whether the thread is wanted.
  private func waitToLead(_ number: Int) -> Bool {
    let seen = spareWake.seen
    let now = clinux_clock_ns()
    // The leader is looked at a second after it is to begin its next hand-over, not all the time.
    let (isWanted, wait) = state.withLock { state -> (Bool, UInt64?) in
      if state.isStopping { return (true, nil) }
      // Unless it is only just being started.
      if state.spares > 1, state.threads[number] != nil {
        state.threads[number] = nil
        return (false, nil)
      }
      guard let current = state.current else { return (true, max(now, state.next)) }
      guard now >= current.since &+ Self.patience else { return (true, current.since) }
      state.heldUp.append(current)
      state.current = nil
      state.leader = number
      return (true, nil)
    }
    if let wait { spareWake.wait(after: seen, until: wait == .max ? .max : wait &+ Self.patience) }
    return isWanted
  }
}

import CCulpritLinux

/// The threads that send pings through closures of the application.
///
/// The leader sends all pings in turn. If a closure blocks for a second, a spare thread takes over, so only one source
/// loses its pings.
final class ProbeEnqueuers: Sendable {
  /// Time in a closure after which another thread takes over, in nanoseconds.
  static let patience: UInt64 = 1_000_000_000
  /// Limit of threads, including those blocked in closures.
  private static let threadsMax = 8

  private struct ClosureCall {
    var source: ProbedSource
    var since: UInt64
  }

  private struct State {
    var sources: [ProbedSource] = []
    /// The closure call that the leader is in.
    var current: ClosureCall?
    /// The closure calls of threads that lost the lead.
    var blocked: [ClosureCall] = []
    var leader: Int?
    /// Time of the next round in nanoseconds; 0: at once.
    var next: UInt64 = 0
    /// Number of requests for an immediate round.
    var calls = 0
    var threads: [Int: PosixThread] = [:]
    var threadsMade = 0
    var isMaking = false
    var isStopping = false

    var spares: Int { threads.count - 1 - blocked.count }
  }

  private let state = Mutex(State())
  private let isStarted = Mutex(false)
  private let wake = WakeUp()
  private let spareWake = WakeUp()

  /// The first source starts the threads.
  func add(_ source: ProbedSource) throws(WatchdogError) {
    try isStarted.withLock { isStarted throws(WatchdogError) in
      guard !isStarted else { return }
      try start()
      // A spare thread is created in advance: thread creation might fail or block during a stall.
      try? start()
      isStarted = true
    }
    wakeLeader { $0.sources.append(source) }
  }

  /// Wakes the leader for an immediate round, and a spare thread to supervise it.
  private func wakeLeader(_ change: (inout State) -> Void) {
    state.withLock { state in
      change(&state)
      state.calls += 1
      state.next = 0
    }
    wake.notify()
    spareWake.notify()
  }

  func remove(_ source: ProbedSource) { state.withLock { $0.sources.removeAll { $0 === source } } }

  /// Waits until `deadline` for closures to return. Returns whether all threads have ended.
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

  var problems: [String] {
    let now = clinux_clock_ns()
    let (current, blocked, spares) = state.withLock { ($0.current, $0.blocked, $0.spares) }
    let late = (blocked + [current].compactMap { $0 }).filter { now > $0.since &+ Self.patience }
    var sentences = late.map { call in
      let time = Duration.seconds(Int64(clinux_clock_between_ns(call.since, now) / 1_000_000_000))
      let source = call.source.description
      return "no probes in \(source): its closure has not returned for \(time)"
    }
    if let current, late.contains(where: { $0.source === current.source }), spares <= 0 {
      sentences.append("no probes in other event loops until one of these closures returns")
    }
    return sentences
  }

  /// Called without the lock, because the kernel might block thread creation.
  private func start() throws(WatchdogError) {
    let number = state.withLock { state in
      defer { state.threadsMade += 1 }
      return state.threadsMade
    }
    let thread = try PosixThread(name: "culprit-enqueue", stack: .application) { [self] in run(number) }
    state.withLock { state in
      if state.threads.isEmpty { state.leader = number }
      state.threads[number] = thread
    }
  }

  /// A spare thread must exist before the leader calls the application's code. The next round repeats a failed attempt.
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

  private func lead(_ number: Int) {
    let seen = wake.seen
    startSpare()
    let (sources, calls) = state.withLock { state in
      (state.sources.filter { source in !state.blocked.contains { $0.source === source } }, state.calls)
    }
    var next = UInt64.max
    for source in sources {
      let isLeading = state.withLock { state in
        guard state.leader == number, !state.isStopping else { return false }
        state.current = ClosureCall(source: source, since: clinux_clock_ns())
        return true
      }
      guard isLeading else { return }
      next = min(next, source.probeIfDue())
      let isReplaced = state.withLock { state in
        if state.leader == number { state.current = nil }
        return state.leader != number
      }
      if isReplaced {
        wakeLeader { state in state.blocked.removeAll { $0.source === source } }
        return
      }
    }
    state.withLock { if $0.calls == calls { $0.next = next } }
    wake.wait(after: seen, until: next)
  }

  /// Waits until the leader is blocked, then takes over. Returns `false` if the thread is not needed.
  private func waitToLead(_ number: Int) -> Bool {
    let seen = spareWake.seen
    let now = clinux_clock_ns()
    // The leader is checked one second after its next planned call, which saves wake-ups.
    let (isWanted, wait) = state.withLock { state -> (Bool, UInt64?) in
      if state.isStopping { return (true, nil) }
      // A thread that is being started is not in `threads` yet and must not remove itself.
      if state.spares > 1, state.threads[number] != nil {
        state.threads[number] = nil
        return (false, nil)
      }
      guard let current = state.current else { return (true, max(now, state.next)) }
      guard now >= current.since &+ Self.patience else { return (true, current.since) }
      state.blocked.append(current)
      state.current = nil
      state.leader = number
      return (true, nil)
    }
    if let wait { spareWake.wait(after: seen, until: wait == .max ? .max : wait &+ Self.patience) }
    return isWanted
  }
}

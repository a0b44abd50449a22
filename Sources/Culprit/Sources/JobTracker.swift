/// Follows what one thread of a pool runs, from look to look, and says since when it has been one job without a pause.
///
/// That the same task is found twice tells nothing: it may have been suspended and resumed in between, a thousand times.
/// What counts is proof of the contrary. A thread that has used no processor time since the last look has done nothing
/// since; and where a watchpoint on the word that names its task was not hit, the runtime has begun and ended no job there.
/// Without watchpoints, a task that was not enqueued since the last look was not suspended since, unless it went on at once.
///
/// A pure state machine: what a look shows comes in, what to do comes out.
struct JobTracker {
  /// What a look shows.
  struct Look {
    /// The time before the first word was read, in nanoseconds.
    var time: UInt64
    /// The time after the last word was read; 0: `time`.
    var readTime: UInt64 = 0
    /// The task that the thread runs; 0: none.
    var task: UInt64
    /// Words of the task that are written when it is enqueued and when it is suspended, and not while it runs.
    var words: [UInt64] = []
    /// The priority that the task was enqueued with; 0: unknown.
    var priority: UInt8 = 0
    /// The processor time that the thread has used; 0: unknown.
    var used: UInt64 = 0
    /// Whether the watchpoint, which was set at the last look, has been hit; `nil`: none was set.
    var isHit: Bool?
    /// A number that changes when the task is enqueued; `nil` where that is not counted.
    var enqueues: UInt32?
  }

  /// What is to be done.
  struct Step: Equatable {
    /// The job that was followed is over.
    var hasEnded = false
    /// A job has been going on since this time.
    var began: UInt64?
    /// The job had no pause up to this time.
    var unbrokenUntil: UInt64?
    /// A watchpoint is to be set, then ``watched(_:)`` called.
    var wantsWatchpoint = false
  }

  private enum State {
    /// Nothing is known of the time before the last look.
    case unknown
    /// A job has been going on since this time.
    case job(since: UInt64)
  }

  private var state = State.unknown
  private var last: Look?
  /// Looks further apart than this tell nothing: the process may have been stopped meanwhile.
  private let apartMax: UInt64
  /// After so many more looks a watchpoint may be set: each one that was hit doubles the wait.
  private var wait = 0
  private var penalty = 0

  /// The most looks between two watchpoints on a thread whose watchpoints are hit.
  private static let penaltyMax = 16

  /// A tracker of looks that are `interval` nanoseconds apart.
  init(interval: UInt64) { apartMax = 3 * interval }

  /// Since when a job has been going on; `nil`: none is known.
  var since: UInt64? {
    if case .job(let since) = state { return since }
    return nil
  }

  /// Takes in what a look shows.
  mutating func advance(_ look: Look) -> Step {
    var step = Step()
    let before = last
    last = look.task == 0 ? nil : look
    if wait > 0 { wait -= 1 }
    guard let before, look.task != 0, isSame(before, look) else {
      if case .job = state { step.hasEnded = true }
      state = .unknown
      if look.isHit == true { punish() }
      return step
    }
    let isUnbroken = look.isHit.map { !$0 } ?? (isIdle(before, look) || isNotEnqueued(before, look))
    if look.isHit == true { punish() }
    switch state {
    case .job where isUnbroken:
      penalty = 0
      step.unbrokenUntil = look.time
    case .job:
      step.hasEnded = true
      state = .unknown
    case .unknown where isUnbroken:
      // One job might have ended and another begun while the first look was read.
      let began = max(before.time, before.readTime)
      state = .job(since: began)
      (step.began, step.unbrokenUntil) = (began, look.time)
    case .unknown: break
    }
    step.wantsWatchpoint = look.isHit != false && wait == 0
    return step
  }

  /// A watchpoint has been set, and `look` is what was seen behind that.
  mutating func watched(_ look: Look) -> Step {
    var step = Step()
    let before = last
    last = look.task == 0 ? nil : look
    guard let before, look.task != 0, isSame(before, look) else {
      step.hasEnded = since != nil
      state = .unknown
      return step
    }
    if since != nil, isIdle(before, look) { return step }
    step.hasEnded = since != nil
    let began = max(look.time, look.readTime)
    step.began = began
    state = .job(since: began)
    return step
  }

  /// Forgets what is known, as if the thread had been seen for the last time.
  mutating func restart() {
    state = .unknown
    last = nil
  }

  /// Whether the thread has not run between two looks.
  private func isIdle(_ before: Look, _ look: Look) -> Bool { before.used != 0 && look.used == before.used }

  private func isNotEnqueued(_ before: Look, _ look: Look) -> Bool {
    look.enqueues != nil && look.enqueues == before.enqueues
  }

  private func isSame(_ before: Look, _ look: Look) -> Bool {
    look.task == before.task && look.words == before.words && look.time &- before.time <= apartMax
  }

  private mutating func punish() {
    penalty = min(max(1, penalty * 2), Self.penaltyMax)
    wait = penalty
  }
}

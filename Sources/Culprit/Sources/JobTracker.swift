/// Computes from samples of a pool thread how long the thread has been in one job without a pause.
///
/// Between two samples, a task might have been suspended and resumed. Any of these proves that there was no pause:
///
/// - The thread used no CPU time between the samples.
/// - A watchpoint on the word that holds the thread's current task was not hit: no job began or ended on the thread.
/// - Without watchpoints: the task was not enqueued. A suspension that resumes at once is missed.
struct JobTracker {
  struct Observation {
    /// Timestamp taken before the first word was read, in nanoseconds.
    var time: UInt64
    /// Timestamp taken after the last word was read; 0: equal to `time`.
    var readTime: UInt64 = 0
    /// Address of the current task; 0: none.
    var task: UInt64
    /// Words of the task that change when it is enqueued or suspended, but not while it runs.
    var words: [UInt64] = []
    /// Address of the function with which the task resumed, or will resume.
    var resumption: UInt64 = 0
    /// 0: unknown.
    var priority: UInt8 = 0
    /// CPU time of the thread in nanoseconds; 0: unknown.
    var used: UInt64 = 0
    /// Whether a watchpoint was hit; `nil`: none was set at the last sample.
    var isHit: Bool?
    /// A counter of the task's enqueues; `nil` if enqueues are not counted.
    var enqueues: UInt32?
  }

  struct Step: Equatable {
    var hasEnded = false
    var began: UInt64?
    /// The job had no pause up to this time.
    var unbrokenUntil: UInt64?
    /// The caller must set a watchpoint, then call ``watched(_:)``.
    var wantsWatchpoint = false
  }

  private enum State {
    /// No job is known to span the last samples.
    case unknown
    case job(since: UInt64)
  }

  private var state = State.unknown
  private var last: Observation?
  /// Maximum interval between two samples. During a longer interval, the process might have been stopped.
  private let apartMax: UInt64
  /// Number of samples before the next watchpoint. Each watchpoint that is hit doubles the wait.
  private var wait = 0
  private var penalty = 0

  private static let penaltyMax = 16

  /// Samples are `interval` nanoseconds apart.
  init(interval: UInt64) { apartMax = 3 * interval }

  var since: UInt64? {
    if case .job(let since) = state { return since }
    return nil
  }

  mutating func advance(_ observation: Observation) -> Step {
    var step = Step()
    let before = last
    last = observation.task == 0 ? nil : observation
    if wait > 0 { wait -= 1 }
    guard let before, observation.task != 0, isSame(before, observation) else {
      if case .job = state { step.hasEnded = true }
      state = .unknown
      if observation.isHit == true { punish() }
      return step
    }
    let isUnbroken =
      observation.isHit.map { !$0 } ?? (isIdle(before, observation) || isNotEnqueued(before, observation))
    if observation.isHit == true { punish() }
    switch state {
    case .job where isUnbroken:
      penalty = 0
      step.unbrokenUntil = observation.time
    case .job:
      step.hasEnded = true
      state = .unknown
    case .unknown where isUnbroken:
      // One job might have ended and another begun while the first sample was taken.
      let began = max(before.time, before.readTime)
      state = .job(since: began)
      (step.began, step.unbrokenUntil) = (began, observation.time)
    case .unknown: break
    }
    step.wantsWatchpoint = observation.isHit != false && wait == 0
    return step
  }

  /// Processes the sample taken after a watchpoint was set.
  mutating func watched(_ observation: Observation) -> Step {
    var step = Step()
    let before = last
    last = observation.task == 0 ? nil : observation
    guard let before, observation.task != 0, isSame(before, observation) else {
      step.hasEnded = since != nil
      state = .unknown
      return step
    }
    if since != nil, isIdle(before, observation) { return step }
    step.hasEnded = since != nil
    let began = max(observation.time, observation.readTime)
    step.began = began
    state = .job(since: began)
    return step
  }

  mutating func restart() {
    state = .unknown
    last = nil
  }

  private func isIdle(_ before: Observation, _ observation: Observation) -> Bool {
    before.used != 0 && observation.used == before.used
  }

  private func isNotEnqueued(_ before: Observation, _ observation: Observation) -> Bool {
    observation.enqueues != nil && observation.enqueues == before.enqueues
  }

  private func isSame(_ before: Observation, _ observation: Observation) -> Bool {
    observation.task == before.task && observation.words == before.words && observation.time &- before.time <= apartMax
  }

  private mutating func punish() {
    penalty = min(max(1, penalty * 2), Self.penaltyMax)
    wait = penalty
  }
}

import CCulpritObserver

/// Wakes the active sampler, and replaces a sampler that sleeps in one step for longer than ``patience``.
struct SamplerSupervisor: ~Copyable {
  /// The longest time of one step. Reading one stack takes some milliseconds.
  private static let patience: UInt64 = 1_000_000_000

  private static let interval: UInt64 = 100_000_000

  struct Outcome {
    var wait = UInt64.max
    /// The slot that an abandoned sampler was reading; -1: none.
    var lostSlot: Int32 = -1

    @_noLocks init() {}
  }

  private let sampling: UnsafeMutablePointer<observer_sampling>
  /// The active sampler; -1 for none.
  private var active: Int32 = -1
  /// The active sampler's step at the last check, and the time in this step.
  private var steps: UInt32 = 0
  private var overdue: UInt64 = 0

  init(_ sampling: UnsafeMutablePointer<observer_sampling>) { self.sampling = sampling }

  var isStopped: Bool { @_noLocks get { active < 0 } }

  @_noLocks mutating func supervise(_ tick: WorkItemTracker.Tick, isNeeded: Bool) -> Outcome {
    var outcome = Outcome()
    if active >= 0 { outcome.lostSlot = abandonIfBlocked(tick) }
    let isReplaced = active < 0 && activate()
    if active >= 0, isNeeded || isReplaced { observer_sampler_wake(sampling, UInt32(active)) }
    if active < 0 || overdue > 0 || isNeeded { outcome.wait = Self.interval }
    return outcome
  }

  /// Returns the slot that the abandoned sampler was reading, -1 for none.
  @_noLocks private mutating func abandonIfBlocked(_ tick: WorkItemTracker.Tick) -> Int32 {
    let now = observer_sampler_steps(sampling, UInt32(active))
    guard now & 1 == 1, now == steps else {
      steps = now
      overdue = 0
      return -1
    }
    overdue &+= max(1, tick.charged)
    guard overdue >= Self.patience, observer_sampler_is_asleep(sampling, UInt32(active)) else { return -1 }
    let slot = observer_sampler_give_up(sampling, UInt32(active))
    active = -1
    overdue = 0
    return slot
  }

  @_noLocks private mutating func activate() -> Bool {
    var number: UInt32 = 0
    while number < UInt32(OBSERVER_SAMPLERS_MAX) {
      if observer_sampler_state(sampling, number) == OBSERVER_SAMPLER_SPARE {
        observer_sampler_activate(sampling, number)
        active = Int32(number)
        steps = observer_sampler_steps(sampling, number)
        return true
      }
      number &+= 1
    }
    return false
  }
}

func supervisorCodeAnchor() -> CodeAnchor { { 3 } }

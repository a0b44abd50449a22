import CCulpritObserver

/// Wakes the sampler that is at work, and replaces one that the kernel holds up.
///
/// A sampler is held up when it has been in one step for longer than ``patience`` and neither runs nor waits for a
/// processor. When none is left, no stacks are taken until one comes back.
struct SamplerSupervisor: ~Copyable {
  /// How long one step of a sampler may take: reading one stack takes some milliseconds.
  private static let patience: UInt64 = 1_000_000_000

  /// How often it is looked whether one that takes too long is held up, or one has come back.
  private static let interval: UInt64 = 100_000_000

  /// What has come of looking at them.
  struct Outcome {
    /// How long until that is to be done again.
    var wait = UInt64.max
    /// The slot that a sampler was reading when it was given up, -1 if none was.
    var lostSlot: Int32 = -1

    // Written out because the compiler checks @_noLocks file by file, and does not see into another file's implicit
    // one.
    @_noLocks init() {}
  }

  private let sampling: UnsafeMutablePointer<observer_sampling>
  /// The one at work, -1 for none.
  private var active: Int32 = -1
  /// The step that it was in when it was looked at last, and for how long it has been in it.
  private var steps: UInt32 = 0
  private var overdue: UInt64 = 0

  init(_ sampling: UnsafeMutablePointer<observer_sampling>) { self.sampling = sampling }

  /// Whether nobody takes stacks.
  var isStopped: Bool { @_noLocks get { active < 0 } }

  /// Looks at the samplers.
  ///
  /// - Parameters:
  ///   - tick: The time.
  ///   - isNeeded: Whether there is something for a sampler to do.
  /// - Returns: What has come of it.
  @_noLocks mutating func supervise(_ tick: WorkItemTracker.Tick, isNeeded: Bool) -> Outcome {
    var outcome = Outcome()
    if active >= 0 { outcome.lostSlot = giveUpIfHeldUp(tick) }
    let isReplaced = active < 0 && activate()
    if active >= 0, isNeeded || isReplaced { observer_sampler_wake(sampling, UInt32(active)) }
    if active < 0 || overdue > 0 || isNeeded { outcome.wait = Self.interval }
    return outcome
  }

  /// Gives up the sampler that is at work, if it is held up. Returns the slot that it was reading, -1 for none.
  @_noLocks private mutating func giveUpIfHeldUp(_ tick: WorkItemTracker.Tick) -> Int32 {
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

  /// Puts a spare sampler to work. Returns whether there was one.
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

/// Where this file's code lies (``Residency``).
func supervisorCodeAnchor() -> CodeAnchor { { 3 } }

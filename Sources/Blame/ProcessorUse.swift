import CulpritStallRecord

/// How a thread spent its time: on a processor, ready for one without having one, and the rest waiting for something else.
package struct ProcessorUse: Hashable, Sendable {
  /// The part of the time in which it had a processor, from 0 to 1.
  package var share: Double
  /// The part in which it could have run and had none; `nil` where the kernel does not tell.
  package var delay: Double?

  /// What the kernel counted for a thread at one moment.
  struct Count {
    /// When.
    var age: Duration
    /// What it had used by then.
    var used: Duration?
    /// What it had been ready for by then.
    var delayed: Duration?
  }

  /// The parts of the time between such moments of `counts`, in order of time, that are neighbours and that `isPart` both
  /// selects, by their numbers. `nil` when there are none.
  init?(_ counts: [Count], where isPart: (Int) -> Bool) {
    var (used, passed) = (Duration.zero, Duration.zero)
    var (delayed, counted) = (Duration.zero, Duration.zero)
    for number in counts.indices.dropLast() where isPart(number) && isPart(number + 1) {
      let (earlier, later) = (counts[number], counts[number + 1])
      guard let before = earlier.used, let after = later.used, after >= before, later.age > earlier.age
      else { continue }
      used += after - before
      passed += later.age - earlier.age
      guard let before = earlier.delayed, let after = later.delayed, after >= before else { continue }
      delayed += after - before
      counted += later.age - earlier.age
    }
    guard passed > .zero else { return nil }
    share = min(1, used.inSeconds / passed.inSeconds)
    // A wait is counted when it ends: one that began before the first moment is part of it.
    delay = counted > .zero ? min(1 - share, delayed.inSeconds / counted.inSeconds) : nil
  }

  /// A use that is known.
  init(share: Double, delay: Double?) {
    self.share = share
    self.delay = delay
  }
}

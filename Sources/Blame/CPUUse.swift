import CulpritStallRecord

/// A thread's use of its time: on a CPU, ready to run without a CPU, and waiting for the rest.
package struct CPUUse: Hashable, Sendable {
  /// The share of time on a CPU, from 0 to 1.
  package var share: Double
  /// The share of time ready to run without a CPU; `nil` if the kernel does not count it.
  package var runnableShare: Double?

  /// The kernel's counts for a thread at one time.
  struct Count {
    /// The age of the work.
    var age: Duration
    /// The total CPU time.
    var used: Duration?
    /// The total time ready to run.
    var delayed: Duration?
  }

  /// Computes the use between neighbours of `counts`, which must be in order of time, whose indices both satisfy
  /// `isPart`. Returns `nil` if there are none.
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
    // The kernel counts a wait at its end, so a wait that began before the first count is included.
    runnableShare = counted > .zero ? min(1 - share, delayed.inSeconds / counted.inSeconds) : nil
  }

  /// Creates a known use.
  init(share: Double, runnableShare: Double?) {
    self.share = share
    self.runnableShare = runnableShare
  }
}

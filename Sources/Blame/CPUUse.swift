import CulpritStallRecord

extension StallReport.CPUUse {
  struct Count {
    var age: Duration
    var used: Duration?
    var delayed: Duration?
  }

  /// Computes the use between neighbours of `counts` if `isPart` holds for both indices. `counts` must be in order of
  /// time.
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
    let share = min(1, used.inSeconds / passed.inSeconds)
    // The kernel counts a wait at its end, so a part before the first count might be included.
    let runnable = counted > .zero ? min(1 - share, delayed.inSeconds / counted.inSeconds) : nil
    self.init(share: share, runnableShare: runnable)
  }
}

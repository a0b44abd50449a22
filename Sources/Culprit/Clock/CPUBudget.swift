/// Limits the CPU time of the watchdog's threads to a percentage of one CPU, averaged over ten seconds.
///
/// A pure state machine: the caller reads the clocks, so tests control time. All times are nanoseconds.
struct CPUBudget: BitwiseCopyable {
  /// The time over which the use is averaged.
  private let window: UInt64 = 10_000_000_000
  /// A tenth of a window's budget can be used in one burst; the rest accrues over time.
  private let burst: UInt64 = 10
  /// The CPU time left; negative after an overrun.
  private var room: Int64 = 0
  private var lastTime: UInt64 = 0
  private var lastUsed: UInt64 = 0

  // Written out because the compiler checks @_noLocks file by file, and does not see into another file's implicit one.
  @_noLocks init() {}

  /// Whether the budget is used up.
  var isExhausted: Bool { @_noLocks get { room <= 0 } }

  /// Returns the time until the budget is positive again, if no CPU time is used in between; at least 100 ms.
  @_noLocks func wait(percent: UInt32) -> UInt64 {
    let rate = UInt64(max(1, percent)) &* 9
    return max(100_000_000, UInt64(max(0, -room)) / rate &* 1000)
  }

  /// Accounts for the time since the last call.
  ///
  /// - Parameters:
  ///   - now: The time.
  ///   - used: The CPU time of all threads so far.
  ///   - percent: The budget, in percent of one CPU.
  @_noLocks mutating func update(now: UInt64, used: UInt64, percent: UInt32) {
    let whole = Int64(window / 100 &* UInt64(percent))
    let most = whole / Int64(burst)
    guard lastTime != 0 else {
      (lastTime, lastUsed, room) = (now, used, most)
      return
    }
    let elapsed = min(now &- min(now, lastTime), 10 &* window)
    // The total can go down briefly when a thread ends.
    let spent = min(used &- min(used, lastUsed), 10 &* window)
    room &+= Int64(elapsed / 1000 &* UInt64(percent) &* 9) &- Int64(spent)
    // A debt beyond one window's budget comes from other work, which waiting does not reduce.
    room = max(-whole, min(most, room))
    lastTime = max(now, lastTime)
    lastUsed = max(used, lastUsed)
  }
}

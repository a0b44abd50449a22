/// Limits the CPU time of the watchdog's threads to a percentage of one CPU, averaged over ten seconds.
///
/// A pure state machine: it reads no clock. All times are nanoseconds.
struct CPUBudget: BitwiseCopyable {
  private let window: UInt64 = 10_000_000_000
  /// The longest burst is the window's budget divided by this number; the rest accrues over time.
  private let burst: UInt64 = 10
  /// The CPU time left; negative after an overrun.
  private var room: Int64 = 0
  private var lastTime: UInt64 = 0
  private var lastUsed: UInt64 = 0

  // Explicit: @_noLocks does not see another file's implicit initializer.
  @_noLocks init() {}

  var isExhausted: Bool { @_noLocks get { room <= 0 } }

  /// Returns the time until the budget is positive again; at least 100 ms.
  @_noLocks func wait(percent: UInt32) -> UInt64 {
    let rate = UInt64(max(1, percent)) &* 9
    return max(100_000_000, UInt64(max(0, -room)) / rate &* 1000)
  }

  /// Accounts for the time since the last call. `used`: CPU time of all threads so far.
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
    // Limits debt to one window; the excess comes from work that ignores the budget.
    room = max(-whole, min(most, room))
    lastTime = max(now, lastTime)
    lastUsed = max(used, lastUsed)
  }
}

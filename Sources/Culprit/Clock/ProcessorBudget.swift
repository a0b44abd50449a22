/// Limits the processor time of the watchdog's threads to a part of one processor, averaged over ten seconds.
///
/// A pure state machine: clocks are read by the caller, so that tests drive time. All times are nanoseconds.
struct ProcessorBudget: BitwiseCopyable {
  /// The time over which the use is averaged.
  private let window: UInt64 = 10_000_000_000
  /// A tenth of a window's budget can be used in one go; the rest accrues.
  private let burst: UInt64 = 10
  /// The processor time that is left; negative after more has been used than there was.
  private var room: Int64 = 0
  private var lastTime: UInt64 = 0
  private var lastUsed: UInt64 = 0

  // Written out because the compiler checks @_noLocks file by file, and does not see into another file's implicit one.
  @_noLocks init() {}

  /// Whether nothing is left.
  var isExhausted: Bool { @_noLocks get { room <= 0 } }

  /// The time until something is left, if nothing is used meanwhile; at least 100 ms.
  @_noLocks func wait(percent: UInt32) -> UInt64 {
    let rate = UInt64(max(1, percent)) &* 9
    return max(100_000_000, UInt64(max(0, -room)) / rate &* 1000)
  }

  /// Takes account of the time since the last call.
  ///
  /// - Parameters:
  ///   - now: The time.
  ///   - used: The processor time of all threads so far.
  ///   - percent: The budget, in percent of one processor.
  @_noLocks mutating func update(now: UInt64, used: UInt64, percent: UInt32) {
    let whole = Int64(window / 100 &* UInt64(percent))
    let most = whole / Int64(burst)
    guard lastTime != 0 else {
      (lastTime, lastUsed, room) = (now, used, most)
      return
    }
    let elapsed = min(now &- min(now, lastTime), 10 &* window)
    // A thread that ends is left out for a moment.
    let spent = min(used &- min(used, lastUsed), 10 &* window)
    room &+= Int64(elapsed / 1000 &* UInt64(percent) &* 9) &- Int64(spent)
    // More than a window's debt comes from other work, which waiting does not undo.
    room = max(-whole, min(most, room))
    lastTime = max(now, lastTime)
    lastUsed = max(used, lastUsed)
  }
}

/// Delays requests to a thread that has not answered. The delay doubles with each failure, up to ten seconds.
struct SampleBackoff: BitwiseCopyable {
  private var item: UInt64 = 0
  private var threadID: Int32 = 0
  private var wait: UInt64 = 0
  private var until: UInt64 = 0
  /// The earliest time of the next count of the slot's queue.
  var nextCount: UInt64 = 0

  /// Whether thread `threadID`, which works on `item`, can get a request. 0: any thread.
  @_noLocks func allows(_ item: UInt64, _ now: UInt64, _ threadID: Int32 = 0) -> Bool {
    item != self.item || now >= until || (threadID != 0 && threadID != self.threadID)
  }

  @_noLocks mutating func notAnswered(_ item: UInt64, _ now: UInt64, _ threadID: Int32 = 0) {
    let isAgain = item == self.item && threadID == self.threadID
    wait = isAgain ? min(max(wait &* 2, 100_000_000), 10_000_000_000) : 100_000_000
    (self.item, self.threadID) = (item, threadID)
    until = now &+ wait
  }

  @_noLocks mutating func answered(_ threadID: Int32 = 0) { if threadID == self.threadID { item = 0 } }
}

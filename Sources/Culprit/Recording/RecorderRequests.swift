import CCulpritLinux
import CulpritStallRecord
import Synchronization

/// What has been seen of a stall that is under way.
struct StallSoFar: Sendable {
  var slot: Int
  var item: UInt64
  var recording: Recording
  /// Where it is saved, if it is. Of a stall that is over with that, it is whoever has asked for it that closes it.
  var file: StallFileQueue?
}

/// Somebody who waits for the stalls that are under way.
final class SoFarRequest: Sendable {
  /// The slot of the stall that is over.
  let ending: Int?
  /// What has been seen of them; none has an end, but for that.
  let stalls = Promise<[StallSoFar]>()
  /// Whether all of it is on the disk, as far as it is to be saved at all.
  let saved = Promise<Bool>()

  init(ending: Int?) { self.ending = ending }

  /// Answers when nothing is under way any more.
  func end() {
    stalls.fulfill([])
    saved.fulfill(true)
  }
}

/// Somebody who waits for the stacks of all threads.
final class ThreadRequest: Sendable {
  /// The request's number in the monitor's count.
  let number: UInt32
  private let answer = Mutex<(AllThreads, [Stack])?>(nil)
  private let word = WakeUp()

  init(number: UInt32) { self.number = number }

  /// Gives the threads and their stacks, or `nil` when the watchdog was stopped.
  func finish(_ threads: (AllThreads, [Stack])?) {
    answer.withLock { $0 = threads }
    word.stop()
  }

  /// Waits for the answer until `deadline`, on the observer's clock. Returns whether there is one, and what.
  func wait(until deadline: UInt64) -> (isAnswered: Bool, threads: (AllThreads, [Stack])?) {
    while true {
      let seen = word.seen
      if word.isStopping { return (true, answer.withLock { $0 }) }
      if clinux_clock_ns() >= deadline { return (false, nil) }
      word.wait(after: seen, until: deadline)
    }
  }
}

/// A flag that is set once.
final class StopFlag: Sendable {
  private let word = Atomic<Bool>(false)

  var isSet: Bool { word.load(ordering: .acquiring) }

  func set() { word.store(true, ordering: .releasing) }
}

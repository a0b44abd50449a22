import CCulpritLinux
import CCulpritObserver
import CulpritStallRecord
import Synchronization

/// What has been seen of a stall that is under way.
struct StallSoFar: Sendable {
  var slot: Int
  var item: UInt64
  var recording: Recording
  /// Where it is saved, if it is.
  var file: StallFileQueue?
}

/// Somebody who waits for the stalls that are under way.
final class SoFarRequest: Sendable {
  /// What has been seen of them; none has an end.
  let stalls = Promise<[StallSoFar]>()
  /// Whether all of it is on the disk, as far as it is to be saved at all.
  let saved = Promise<Bool>()

  /// Answers when nothing is under way any more.
  func end() {
    stalls.fulfill([])
    saved.fulfill(true)
  }
}

/// A request for the recording of one stall that is under way.
final class RecordingRequest: Sendable {
  let stall: Stall
  let slot: Int
  let item: UInt64
  /// The recording; `nil` when the stall is over.
  let answer = Promise<Recording?>()

  init(_ stall: Stall, slot: Int, item: UInt64) {
    self.stall = stall
    self.slot = slot
    self.item = item
  }
}

/// Recordings of single stalls.
extension Recorder {
  /// The samples of the stall `stall`, which is under way in slot `slot` as work item `item`; `nil` when it is over, or
  /// the recorder does not answer until `deadline`.
  func recording(of stall: Stall, slot: Int, item: UInt64, until deadline: UInt64) -> Recording? {
    let request = RecordingRequest(stall, slot: slot, item: item)
    let isTaken = recordingRequests.withLock { requests in
      requests?.append(request)
      return requests != nil
    }
    guard isTaken else { return nil }
    observer_ring_wake_reader(rings.monitor)
    return request.answer.wait(until: deadline) ?? nil
  }

  func answerRecordings(_ state: borrowing State) {
    let requests = recordingRequests.withLock { requests in
      defer { if requests?.isEmpty == false { requests = [] } }
      return requests ?? []
    }
    for request in requests {
      let box = state.items[request.slot].flatMap { $0.item.item == request.item ? $0 : nil }
      request.answer.fulfill(box?.item.soFar(box?.item.stall ?? request.stall, process: process))
    }
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

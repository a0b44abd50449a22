import CCulpritLinux
import CCulpritObserver
import CulpritStallRecord

struct StallSoFar: Sendable {
  var slot: Int
  var item: UInt64
  var recording: Recording
  var file: StallFileQueue?
}

final class SoFarRequest: Sendable {
  let stalls = Promise<[StallSoFar]>()
  /// Whether all files of these stalls are complete on disk.
  let saved = Promise<Bool>()

  func end() {
    stalls.fulfill([])
    saved.fulfill(true)
  }
}

final class RecordingRequest: Sendable {
  let stall: Stall
  let slot: Int
  let item: UInt64
  let deadline: UInt64
  let answer = Promise<Recording?>()

  init(_ stall: Stall, slot: Int, item: UInt64, deadline: UInt64) {
    self.stall = stall
    self.slot = slot
    self.item = item
    self.deadline = deadline
  }
}

extension Recorder {
  /// Waits for the first sample of `stall` and returns the recording; `nil` if the stall is over or the recorder does
  /// not answer before `deadline`.
  func recording(of stall: Stall, slot: Int, item: UInt64, until deadline: UInt64) -> Recording? {
    let request = RecordingRequest(stall, slot: slot, item: item, deadline: deadline)
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
    var waiting: [RecordingRequest] = []
    for request in requests {
      let box = state.items[request.slot].flatMap { $0.item.item == request.item ? $0 : nil }
      if lacksSample(box, of: request) {
        waiting.append(request)
      } else {
        request.answer.fulfill(box?.item.soFar(box?.item.stall ?? request.stall, process: process))
      }
    }
    if !waiting.isEmpty { recordingRequests.withLock { $0?.append(contentsOf: waiting) } }
  }

  /// Whether the first sample of the requested work item can still arrive.
  private func lacksSample(_ box: Box?, of request: RecordingRequest) -> Bool {
    guard box.map({ !$0.item.hasSample && !$0.item.isCounted }) ?? true, clinux_clock_ns() < request.deadline,
      let slots = observer_slot_table_if_any()
    else { return false }
    // SAFETY: the index comes from the monitor, so it is below the size of the table, which is never freed.
    return observer_slot_read(slots + request.slot).item == request.item
  }
}

final class ThreadRequest: Sendable {
  let number: UInt32
  /// `nil`: the watchdog was stopped.
  let answer = Promise<(AllThreads, [Stack])?>()

  init(number: UInt32) { self.number = number }
}

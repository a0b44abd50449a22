import CCulpritObserver
import CulpritStallRecord

extension Recorder {
  /// Delivers the threads of a capture to all requests, and to each stall declared before the capture.
  func handleAllThreads(_ event: UnsafePointer<observer_event>, _ state: inout State) {
    // SAFETY: the event stays valid until the ring's only reader consumes it.
    let head = event.pointee
    switch head.kind {
    case OBSERVER_EVENT_ALL_THREADS_BEGAN.rawValue:
      for box in state.items.values
      where box.item.stall != nil && !box.item.isCounted && box.item.allThreads == nil {
        box.item.allThreads = head.all_threads
      }
      var requests = threadRequests.withLock { requests in
        // Request numbers can wrap around.
        let answered = requests.waiting.filter { Int32(bitPattern: head.served &- $0.number) >= 0 }
        requests.waiting.removeAll { request in answered.contains { $0 === request } }
        return answered
      }
      // A capture that a sampler left unfinished is repeated.
      if let unfinished = state.allThreads {
        requests += unfinished.requests
        for box in state.items.values where box.item.allThreads == unfinished.number {
          box.item.allThreads = head.all_threads
          box.item.ignoreKnownOthers()
        }
      }
      state.allThreads = AllThreadsRecord(number: head.all_threads, requests: requests)
    case OBSERVER_EVENT_THREAD.rawValue:
      HandlerTime.add(nanoseconds: head.handler_ns)
      guard !PosixThread.isOurs(head.tid) else { return }
      guard state.allThreads?.number == head.all_threads else { return }
      let captured = CapturedSample(event)
      let thread = ThreadSample(
        thread: ObservedThread(id: head.tid, name: Self.threadName(head.tid)),
        stack: nil,
        outcome: captured.sample.outcome,
        cpuTime: captured.sample.cpuTime,
        activity: captured.sample.activity,
        handlerTime: captured.sample.handlerTime,
        unwindTime: captured.sample.unwindTime
      )
      for box in state.items.values where box.item.allThreads == head.all_threads {
        box.item.add(other: thread, stack: captured.stack)
      }
      if let capture = state.allThreads, !capture.requests.isEmpty {
        var placed = thread
        placed.lock = captured.sample.lock
        if var descriptor = captured.sample.descriptor {
          state.sockets.complete(&descriptor)
          placed.descriptor = descriptor
        }
        placed.stack = captured.stack.map { state.allThreads?.stacks.place(of: $0) } ?? nil
        state.allThreads?.all.threads.append(placed)
      }
    default:
      guard state.allThreads?.number == head.all_threads else { return }
      for box in state.items.values where box.item.allThreads == head.all_threads {
        box.item.endOthers(leftOut: Int(head.lost))
      }
      if var capture = state.allThreads, !capture.requests.isEmpty {
        capture.all.leftOut = Int(head.lost)
        capture.all.isComplete = true
        for request in capture.requests { request.answer.fulfill((capture.all, capture.stacks.stacks)) }
      }
      state.allThreads = nil
    }
  }
}

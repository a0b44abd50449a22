import CCulpritLinux
import CCulpritObserver

/// Captures every thread of the process: at the declaration of each stall, and on request.
///
/// If a sampler leaves a capture unfinished, the next sampler repeats it. Threads not captured within ``longest`` are
/// counted as left out.
struct AllThreadsCapture: ~Copyable {
  /// Time of one slice in nanoseconds; between slices the sampler takes other samples.
  let slice: UInt64 = 10_000_000

  private let longest: UInt64 = 10_000_000_000

  /// Maximum number of open requests of a capture; the remaining requests are reserved for watched work.
  private let openRequestsMax = 32

  private let sampling: UnsafeMutablePointer<observer_sampling>
  private var served: UInt32 = 0
  private var number: UInt32 = 0
  private var tids: UnsafePointer<Int32>?
  private var count = 0
  private var next = 0
  private var leftOut: UInt64 = 0
  private var openRequests = 0
  /// Threads written since the recorder was woken. A wake-up costs a tenth of a sample.
  private var unpublished = 0
  private let publishedAtOnce = 32
  private var began: UInt64 = 0
  private(set) var isUnderWay = false

  init(_ sampling: UnsafeMutablePointer<observer_sampling>) { self.sampling = sampling }

  @_noLocks mutating func abandon() {
    isUnderWay = false
    openRequests = 0
  }

  /// Runs one slice. Returns the time until the next call in nanoseconds; `UInt64.max`: no capture is wanted.
  @_noLocks mutating func advance(
    _ reader: inout ThreadReader,
    _ ring: OpaquePointer,
    requests: UInt32
  ) -> UInt64 {
    if !isUnderWay {
      guard begin(reader, ring, requests) else { return 1_000_000 }
    }
    defer { publish(ring) }
    let sliceEnd = clinux_clock_ns() &+ slice
    while next < count {
      let now = clinux_clock_ns()
      if now &- began > longest {
        leftOut &+= UInt64(count &- next)
        next = count
        break
      }
      // Due samples come first.
      guard now < sliceEnd else { return 0 }
      // All open requests might be answered at once.
      guard openRequests < openRequestsMax, observer_ring_has_room(ring, UInt32(OBSERVER_REQUESTS_MAX)) else {
        return 1_000_000
      }
      capture(&reader, ring)
    }
    if openRequests > 0 { return reader.tick }
    return end(ring) ? .max : 1_000_000
  }

  @_noLocks private mutating func begin(_ reader: borrowing ThreadReader, _ ring: OpaquePointer, _ requests: UInt32)
    -> Bool
  {
    guard observer_ring_has_room(ring, 1) else { return false }
    reader.beginStep(ThreadReader.Target())
    let listed = clinux_task_list(&tids)
    reader.endStep()
    count = listed > 0 ? Int(listed) : 0
    number = observer_capture_all_begin(sampling, requests)
    next = 0
    leftOut = 0
    openRequests = 0
    began = clinux_clock_ns()
    served = requests
    var event = event(OBSERVER_EVENT_ALL_THREADS_BEGAN)
    isUnderWay = observer_ring_write(ring, &event, nil, 0)
    return isUnderWay
  }

  @_noLocks private mutating func end(_ ring: OpaquePointer) -> Bool {
    var event = event(OBSERVER_EVENT_ALL_THREADS_ENDED)
    guard observer_ring_write(ring, &event, nil, 0) else { return false }
    isUnderWay = false
    observer_capture_all_end(sampling, number)
    return !observer_capture_all_is_wanted(sampling, served)
  }

  @_noLocks private mutating func capture(_ reader: inout ThreadReader, _ ring: OpaquePointer) {
    guard let tids else { return }
    // SAFETY: the list has `count` entries and stays valid until the next capture begins.
    let tid = tids[next]
    next &+= 1
    guard tid != clinux_task_self() else { return }
    var target = ThreadReader.Target()
    target.index = -1
    target.threadID = tid
    target.thread = observer_visit_begin(tid)
    openRequests &+= 1
    if let taken = reader.read(target) { write(taken.target, taken.reading, reader, ring) }
  }

  @_noLocks mutating func write(
    _ target: ThreadReader.Target,
    _ reading: ThreadReader.Reading,
    _ reader: borrowing ThreadReader,
    _ ring: OpaquePointer
  ) {
    openRequests &-= 1
    if let thread = target.thread { observer_visit_end(thread) }
    if reading.status == OBSERVER_THREAD_GONE { return }
    var event = event(OBSERVER_EVENT_THREAD)
    reader.describe(target, reading, &event)
    guard reader.add(&event, to: ring) else {
      leftOut &+= 1
      return
    }
    unpublished &+= 1
    if unpublished >= publishedAtOnce { publish(ring) }
  }

  @_noLocks mutating func publish(_ ring: OpaquePointer) {
    if unpublished > 0 { observer_ring_wake_reader(ring) }
    unpublished = 0
  }

  @_noLocks private func event(_ kind: observer_event_kind) -> observer_event {
    var event = observer_event()
    event.kind = kind.rawValue
    event.slot = .max
    event.time_ns = clinux_clock_ns()
    event.all_threads = UInt64(number)
    event.served = served
    event.found = UInt32(truncatingIfNeeded: count)
    event.lost = leftOut
    return event
  }
}

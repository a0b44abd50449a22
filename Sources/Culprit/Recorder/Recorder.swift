import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind
import CulpritStallRecord
import Glibc
import Synchronization

/// The thread that takes the monitor's events out of the ring, keeps the samples of what is under suspicion and has
/// stalls saved as they happen, by the disk thread.
///
/// It may block in the allocator. The ring then fills up and samples are lost and counted; the monitor never waits.
final class Recorder: Sendable {
  let rings: Rings
  private let stopping = StopFlag()
  let process: ObservedProcess
  let box: BlackBoxWriter?
  let keepsRecovered: Bool
  private let whileDebugged: Configuration.Sampling.Debugged
  private let settings: ReportSettings
  private let announce: @Sendable (StallEvent) -> Void
  private let notes: @Sendable () -> [StallNote]
  let phaseNotes: @Sendable (WatchedSource) -> [StallNote]
  private let name: @Sendable (Recording, StallFileQueue) -> Void
  private let deliver: @Sendable (Recording, StallFileQueue?) -> Void
  let modules: @Sendable () -> [Module]
  private let problems: ProblemList
  let threadRequests = Mutex(ThreadRequests())
  /// Those who wait; `nil` when nobody answers any more.
  let soFarRequests = Mutex<[SoFarRequest]?>([])
  /// Requests for one recording each; `nil` when they are answered no more.
  let recordingRequests = Mutex<[RecordingRequest]?>([])

  /// The rings that events come from, the monitor's and each sampler's, freed with the last reference.
  final class Rings: @unchecked Sendable {
    // SAFETY: each ring has one writer, and all of them one reader (the recorder); freed when all of them have ended.
    let monitor: OpaquePointer
    let samplers: [OpaquePointer]

    init?(samplers count: Int) {
      // A sampler's ring must hold the stacks of all threads that have been asked; the monitor's events have none.
      guard let first = observer_ring_create(1 << 18) else { return nil }
      monitor = first
      samplers = (0..<count).compactMap { _ in observer_ring_create_beside(1 << 20, first) }
      guard samplers.count == count else { return nil }
    }

    deinit {
      for ring in samplers { observer_ring_destroy(ring) }
      observer_ring_destroy(monitor)
    }

    /// The ring with the oldest event, and that event; `nil` when there is none.
    ///
    /// What a sampler tells of a work item comes after what the monitor has told of the work item before it: so the
    /// monitor's ring is looked at last.
    func oldest() -> (ring: OpaquePointer, event: UnsafePointer<observer_event>)? {
      var found: (ring: OpaquePointer, event: UnsafePointer<observer_event>)?
      for ring in samplers { found = older(found, ring) }
      return older(found, monitor)
    }

    /// The older one of `found` and the oldest event of `ring`.
    private func older(
      _ found: (ring: OpaquePointer, event: UnsafePointer<observer_event>)?,
      _ ring: OpaquePointer
    ) -> (ring: OpaquePointer, event: UnsafePointer<observer_event>)? {
      // SAFETY: an event stays until it is consumed, which only the recorder does.
      guard let event = observer_ring_read(ring) else { return found }
      if let found, found.event.pointee.order < event.pointee.order { return found }
      return (ring, event)
    }
  }

  /// A recorder of what comes through `rings`.
  ///
  /// - Parameters:
  ///   - rings: Where events come from.
  ///   - process: This process.
  ///   - box: Where stalls are saved; nowhere when `nil`.
  ///   - problems: Where it is noted what could not be recorded.
  ///   - modules: Reads the modules of the process; may take a moment.
  ///   - keepsRecovered: Whether files of stalls that ended are kept.
  ///   - whileDebugged: What is done about a stall while a debugger is attached.
  ///   - settings: How reports of what is known so far are made.
  ///   - announce: Told of each stall when it begins, and when it becomes a hang; must not block.
  ///   - notes: What is to be noted about a stall that has begun; may take a moment.
  ///   - phaseNotes: What is to be noted about a source that is a phase of the process, at any time.
  ///   - name: Puts the names of what a recording has into its file; must not block.
  ///   - deliver: Receives a recording of each stall when it is over, on the recorder thread, and the file, which is to
  ///     be closed, unless it has been; must not block.
  init(
    rings: Rings,
    process: ObservedProcess,
    box: BlackBoxWriter?,
    problems: ProblemList,
    modules: @escaping @Sendable () -> [Module],
    keepsRecovered: Bool,
    whileDebugged: Configuration.Sampling.Debugged,
    settings: ReportSettings,
    announce: @escaping @Sendable (StallEvent) -> Void,
    notes: @escaping @Sendable () -> [StallNote],
    phaseNotes: @escaping @Sendable (WatchedSource) -> [StallNote],
    name: @escaping @Sendable (Recording, StallFileQueue) -> Void,
    deliver: @escaping @Sendable (Recording, StallFileQueue?) -> Void
  ) {
    self.phaseNotes = phaseNotes
    self.rings = rings
    self.process = process
    self.box = box
    self.problems = problems
    self.keepsRecovered = keepsRecovered
    self.whileDebugged = whileDebugged
    self.settings = settings
    self.announce = announce
    self.notes = notes
    self.name = name
    self.deliver = deliver
    self.modules = modules
  }

  /// Makes ``run()`` return when the ring is empty. The monitor must have ended.
  func stop() {
    stopping.set()
    observer_ring_wake_reader(rings.monitor)
  }

  /// Asks `control`'s monitor for a capture of all threads.
  ///
  /// - Returns: What receives it.
  func requestThreads(_ control: ControlBlock) -> ThreadRequest {
    threadRequests.withLock { requests in
      // Under the lock: the answer must not come before the request is known here.
      let request = ThreadRequest(number: observer_control_want_threads(control.pointer))
      if requests.isClosed { request.finish(nil) } else { requests.waiting.append(request) }
      return request
    }
  }

  /// Asks for the stalls that are under way, as far as they have been seen.
  ///
  /// - Returns: What receives them.
  func requestSoFar() -> SoFarRequest {
    let request = SoFarRequest()
    let isTaken = soFarRequests.withLock { requests in
      requests?.append(request)
      return requests != nil
    }
    if isTaken { observer_ring_wake_reader(rings.monitor) } else { request.end() }
    return request
  }

  /// Answers who asked for them, then has their files brought to the disk.
  private func answerSoFar(_ state: inout State) {
    let requests = soFarRequests.withLock { requests in
      defer { requests = [] }
      return requests ?? []
    }
    guard !requests.isEmpty else { return }
    let stalled = state.items.filter { $0.value.item.stall != nil && !$0.value.item.isCounted }
    let stalls = stalled.compactMap { slot, box in
      box.item.finished(process: process).map {
        StallSoFar(slot: slot, item: box.item.item, recording: $0, file: box.item.file)
      }
    }
    for request in requests { request.stalls.fulfill(stalls) }
    let files = stalled.compactMap { $0.value.item.sync() }
    guard let disk = self.box?.disk else {
      for request in requests { request.saved.fulfill(true) }
      return
    }
    disk.put(isVital: true) {
      let areWhole = files.allSatisfy(\.isWhole)
      for request in requests { request.saved.fulfill(areWhole) }
    }
  }

  /// Records until it is stopped.
  func run() {
    box?.enforceRetention()
    var state = State()
    var events = 0
    while true {
      let seen = observer_ring_published(rings.monitor)
      if let (ring, event) = rings.oldest() {
        handle(event, &state)
        observer_ring_consume(ring)
        events &+= 1
        // A handler does not wait for the end of a storm.
        if events % 256 == 0 { answerRecordings(state) }
        continue
      }
      answerRecordings(state)
      answerSoFar(&state)
      if stopping.isSet { break }
      resting { observer_ring_wait(rings.monitor, seen) }
    }
    // What is stuck when the watchdog is stopped has no end.
    let now = clinux_clock_ns()
    for box in state.items.values where box.item.stall != nil {
      box.settle()
      endStorm(box, &state, now: now)
      if !box.item.isCounted { finish(&box.item) }
    }
    let unanswered = soFarRequests.withLock { requests in
      defer { requests = nil }
      return requests ?? []
    }
    for request in unanswered { request.end() }
    let unansweredRecordings = recordingRequests.withLock { requests in
      defer { requests = nil }
      return requests ?? []
    }
    for request in unansweredRecordings { request.answer.fulfill(nil) }
    let left = threadRequests.withLock { requests in
      defer { requests = ThreadRequests(isClosed: true) }
      return requests.waiting
    }
    for request in left + (state.allThreads?.requests ?? []) { request.finish(nil) }
  }

  /// Keeps a non-copyable work item in a dictionary.
  final class Box {
    var item: RecordedWorkItem
    var counts: ItemCounts
    /// Its place among the stalls of its section's name.
    var member: Storms.Member?
    /// The task that does the work, where one does.
    var task: Overlaps.Worker?
    init(_ item: consuming RecordedWorkItem, _ counts: ItemCounts) {
      self.item = item
      self.counts = counts
    }

    /// The stall's worker, as far as it is known.
    var worker: Overlaps.Worker? { task ?? item.stall.flatMap { $0.thread.id == 0 ? nil : .thread($0.thread.id) } }

    /// Nobody waits for more of it.
    func settle() { if let stall = item.stall { counts.end(after: stall.duration) } }
  }

  /// What the thread knows between two events.
  struct State {
    /// The work items under suspicion and in a stall, by their slots.
    var items: [Int: Box] = [:]
    /// The last work item of each slot that has ended, and the slot's owner then: what a sampler tells of it late is
    /// about nothing.
    var ended: [Int: (item: UInt64, generation: UInt32)] = [:]
    var nextStallID: UInt64 = 1
    var sockets = SocketLookup()
    var allThreads: AllThreadsRecord?
    /// Code that was there when a work item came under suspicion may be gone when it is a stall.
    var reading = ProcessReading()
    var overlaps = Overlaps()
    var fileLocks = FileLocks()
    var storms = Storms()
  }

  /// A capture of all threads that is under way.
  struct AllThreadsRecord {
    var number: UInt64
    var requests: [ThreadRequest]
    /// What the requests get.
    var all = AllThreads()
    var stacks = StackTable()
  }

  /// Who waits for a capture of all threads.
  struct ThreadRequests {
    var waiting: [ThreadRequest] = []
    var isClosed = false
  }

  private func handle(_ event: UnsafePointer<observer_event>, _ state: inout State) {
    // SAFETY: the ring's reader may use the event until it consumes it.
    let head = event.pointee
    switch head.kind {
    case OBSERVER_EVENT_ALL_THREADS_BEGAN.rawValue, OBSERVER_EVENT_THREAD.rawValue,
      OBSERVER_EVENT_ALL_THREADS_ENDED.rawValue:
      handleAllThreads(event, &state)
      return
    default: break
    }
    let index = Int(head.slot)
    if let box = state.items[index], box.item.item != head.item || box.item.generation != head.generation {
      // A sampler that was held up tells of what is over.
      let isSample = [OBSERVER_EVENT_SAMPLE.rawValue, OBSERVER_EVENT_STAYED.rawValue].contains(head.kind)
      if isSample, head.item < box.item.item { return }
      // Its end was lost.
      endStorm(box, &state, now: head.time_ns)
      state.items[index] = nil
    }
    switch head.kind {
    case OBSERVER_EVENT_SAMPLE.rawValue:
      if !head.is_shared { HandlerTime.add(nanoseconds: head.handler_ns) }
      if let ended = state.ended[index], ended.generation == head.generation, head.item <= ended.item { return }
      if let box = state.items[index], box.item.isCounted {
        place(box, event, index, &state)
        return
      }
      var captured = CapturedSample(event)
      if var descriptor = captured.sample.descriptor {
        state.sockets.complete(&descriptor)
        captured.sample.descriptor = descriptor
      }
      // Nobody needs to know how queues look before a thread waits for what may be one.
      if head.lock.is_queues { _ = QueueLayout.current }
      Surroundings.areKnown
      guard head.whose == OBSERVER_OF_HOLDER.rawValue else {
        let box = box(index, head, &state)
        box.counts.sample(isTaken: head.status != OBSERVER_SAMPLER_STOPPED.rawValue)
        box.counts.lose(upTo: head.lost)
        box.item.add(captured)
        // The whole machine's list is asked for of stalls only.
        guard box.item.stall != nil else { return }
        if let note = state.fileLocks.note(captured.sample, process, now: clinux_clock_ns()) { box.item.add(note) }
        return
      }
      // What is held is known from a sample.
      guard let box = state.items[index] else { return }
      let holder = HolderSample(
        address: head.holds,
        thread: ObservedThread(id: head.tid, name: Self.threadName(head.tid)),
        isHeld: head.is_held,
        sample: captured.sample
      )
      box.item.add(holder, stack: captured.stack)
    case OBSERVER_EVENT_STALL_BEGAN.rawValue:
      guard let source = SlotRegistry.shared.source(index, generation: head.generation) else {
        problems.note("a stall of a source that has been forgotten was not recorded")
        return
      }
      let box = box(index, head, &state)
      let debugger = state.reading.debugger()
      let item = head.item
      let isRecorded: @Sendable () -> Void = {
        guard let stalls = observer_stall_table() else { return }
        // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the size of the table, which is never freed.
        observer_stall_set_recorded(stalls + index, item)
      }
      guard debugger == nil || whileDebugged != .ignored else { return isRecorded() }
      box.counts.stall()
      let stall = stall(state.nextStallID, source, head)
      state.nextStallID += 1
      // First: naming, saving and noting take their time.
      let event = StallEvent(box.item.soFar(stall, process: process), stall, isHang: false, settings)
      announce(event)
      if source.kind == .section {
        let member = state.storms.begin(source, box.item.place, since: stall.began, now: head.time_ns)
        box.member = member
        guard member.isRecorded else {
          box.item.count(stall)
          return isRecorded()
        }
      }
      box.item.begin(
        stall,
        process: process,
        box: self.box,
        present: state.reading.presentModules(modules),
        isSaved: isRecorded
      )
      box.task = Self.task(index, head.item)
      if let debugger { box.item.add(StallNote(.debugger, text: "process \(debugger)")) }
      for note in notes() + phaseNotes(source) { box.item.add(note) }
      for note in overlapNotes(box, state, at: head.time_ns) { box.item.add(note) }
    case OBSERVER_EVENT_HANG.rawValue:
      guard let box = state.items[index], var stall = box.item.stall else { return }
      stall.duration = Duration(wholeNanoseconds: head.age_ns)
      box.counts.hang()
      announce(StallEvent(box.item.soFar(stall, process: process), stall, isHang: true, settings))
      box.item.add(StallNote(.hang, time: stall.duration))
      // It may not end: what is in the file then must have its names.
      if let file = box.item.file, let recording = box.item.finished(process: process) { name(recording, file) }
    case OBSERVER_EVENT_GOES_ON.rawValue:
      guard let box = state.items[index] else { return }
      box.item.goesOn(
        duration: Duration(wholeNanoseconds: head.age_ns),
        gap: Duration(wholeNanoseconds: head.gap_ns),
        lost: head.lost,
        spared: head.spared
      )
    case OBSERVER_EVENT_STAYED.rawValue:
      guard let box = state.items[index], box.item.item == head.item else { return }
      box.counts.sample(isTaken: true)
      box.counts.lose(upTo: head.lost)
      box.item.stayed(
        age: Duration(wholeNanoseconds: head.age_ns),
        gap: Duration(wholeNanoseconds: head.gap_ns),
        lost: head.lost
      )
      goOnInStorm(box, index, &state, now: head.time_ns)
    case OBSERVER_EVENT_WORK_ITEM_ENDED.rawValue:
      state.ended[index] = (head.item, head.generation)
      guard let box = state.items.removeValue(forKey: index) else { break }
      box.counts.lose(upTo: head.lost)
      if box.item.stall != nil {
        box.item.end(
          duration: Duration(wholeNanoseconds: head.age_ns),
          gap: Duration(wholeNanoseconds: head.gap_ns),
          lost: head.lost,
          spared: head.spared
        )
        box.settle()
        endStorm(box, &state, now: head.time_ns)
        guard !box.item.isCounted else { break }
        let ended = head.item &+ head.age_ns &+ head.gap_ns
        for note in overlapNotes(box, state, at: ended) { box.item.add(note) }
        if let known = known(box, ended: ended) { state.overlaps.remember(known) }
        finish(&box.item)
      }
    default:
      break
    }
  }

  private func known(_ box: Box, ended: UInt64? = nil) -> Overlaps.Known? {
    box.item.stall.map { stall in
      Overlaps.Known(
        reportID: stall.reportID(in: process),
        worker: box.worker,
        labels: box.item.labels,
        source: stall.source,
        began: box.item.item,
        ended: ended
      )
    }
  }

  /// What is to be noted about other stalls of who works on that of `box`, by the observer's clock at `now`.
  private func overlapNotes(_ box: Box, _ state: State, at now: UInt64) -> [StallNote] {
    guard let one = known(box, ended: now), one.worker != nil || !one.labels.isEmpty else { return [] }
    let others = state.items.values.lazy.filter { other in
      let isRelated = one.worker != nil && other.worker == one.worker || !other.item.labels.isDisjoint(with: one.labels)
      return isRelated && !other.item.isCounted
    }
    return state.overlaps.notes(of: one, beside: others.compactMap { known($0) }, now: now)
  }

  /// The task that works on work item `item` of slot `index`; `nil` where none does, or it is over.
  static func task(_ index: Int, _ item: UInt64) -> Overlaps.Worker? {
    // SAFETY: an event's index is below OBSERVER_SLOTS_MAX, the table's size; the table is never freed.
    guard let view = observer_slot_table().map({ observer_slot_read($0 + index) }), view.item == item,
      view.owner_kind == OBSERVER_OWNER_TASK
    else { return nil }
    return .task(view.owner_tid_address, UInt32(truncatingIfNeeded: view.queue_head_address))
  }

  private func box(_ index: Int, _ head: observer_event, _ state: inout State) -> Box {
    if let box = state.items[index] { return box }
    let earlier = state.reading.earlierModules(modules)
    let box = Box(
      RecordedWorkItem(item: head.item, generation: head.generation, earlier: earlier, read: modules),
      ItemCounts(SlotRegistry.shared.series(index, generation: head.generation))
    )
    state.items[index] = box
    return box
  }

  private func stall(_ id: UInt64, _ source: WatchedSource, _ event: observer_event) -> Stall {
    return Stall(
      id: id,
      source: source,
      thread: ObservedThread(id: event.tid, name: Self.threadName(event.tid)),
      threshold: Duration(wholeNanoseconds: event.threshold_ns),
      began: Self.timeOfDay(event.item),
      duration: Duration(wholeNanoseconds: event.age_ns)
    )
  }

  /// The time of day at which the observer's clock was at `time`.
  static func timeOfDay(_ time: UInt64) -> WallTime {
    // This thread may lose its processor between two clocks, and then they tell of different moments.
    var (earlier, wall, later) = (clinux_clock_ns(), clinux_clock_wall_ns(), clinux_clock_ns())
    for _ in 0..<10 where later &- earlier > 20_000 {
      (earlier, wall, later) = (clinux_clock_ns(), clinux_clock_wall_ns(), clinux_clock_ns())
    }
    let began = earlier >= time ? wall.saturatingDifference(earlier - time) : wall.saturatingSum(time - earlier)
    return WallTime(nanosecondsSince1970: began)
  }

  private func finish(_ item: inout RecordedWorkItem) {
    if let source = item.stall?.source { for note in phaseNotes(source) { item.add(note) } }
    let recording = item.finished(process: process)
    let file = item.release()
    let isKept = keepsRecovered || item.stall?.hasEnded != true
    if !isKept || recording == nil { file?.close(keepsFile: isKept) }
    if let recording { deliver(recording, isKept ? file : nil) }
  }

  static func threadName(_ id: Int32) -> String {
    guard id > 0, let name = ProcessMap.readAll("/proc/self/task/\(id)/comm") else { return "" }
    return String(name.prefix { $0 != "\n" })
  }
}

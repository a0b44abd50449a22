import CCulpritLinux
import CCulpritObserver
import CulpritStallRecord
import Glibc
import Synchronization

/// The thread that reads the rings, keeps samples of suspected work items, and saves stalls through the disk thread.
///
/// The recorder can block in the allocator. A ring then fills up, and lost samples are counted.
final class Recorder: Sendable {
  let rings: Rings
  private let isStopping = Atomic<Bool>(false)
  let process: ObservedProcess
  let box: BlackBoxWriter?
  let keepsRecovered: Bool
  private let whileDebugged: Configuration.Sampling.Debugged
  private let settings: ReportSettings
  let pending: PendingReports
  private let deliverEvent: @Sendable (StallEvent) -> Void
  private let notes: @Sendable () -> [StallNote]
  let phaseNotes: @Sendable (WatchedSource) -> [StallNote]
  private let name: @Sendable (Recording, StallFileQueue) -> Void
  private let deliver: @Sendable (Recording, StallFileQueue?) -> Void
  let modules: @Sendable () -> [Module]
  private let problems: ProblemList
  let threadRequests = Mutex(ThreadRequests())
  /// `nil` after the recorder has ended.
  let soFarRequests = Mutex<[SoFarRequest]?>([])
  /// `nil` after the recorder has ended.
  let recordingRequests = Mutex<[RecordingRequest]?>([])

  final class Rings: @unchecked Sendable {
    // SAFETY: each ring has one writer, and the recorder reads all. They are freed when writers and reader have ended.
    let monitor: OpaquePointer
    let samplers: [OpaquePointer]

    init?(samplers count: Int) {
      // A sampler's ring must hold the stacks of all threads of a capture. The monitor's events have no stacks.
      guard let first = observer_ring_create(1 << 18) else { return nil }
      monitor = first
      samplers = (0..<count).compactMap { _ in observer_ring_create_beside(1 << 20, first) }
      guard samplers.count == count else { return nil }
    }

    deinit {
      for ring in samplers { observer_ring_destroy(ring) }
      observer_ring_destroy(monitor)
    }

    /// Returns the oldest event with its ring; `nil` if all rings are empty.
    ///
    /// Reading the monitor's ring last ensures that the monitor's events of a work item come before the samplers'.
    func oldest() -> (ring: OpaquePointer, event: UnsafePointer<observer_event>)? {
      var found: (ring: OpaquePointer, event: UnsafePointer<observer_event>)?
      for ring in samplers { found = older(found, ring) }
      return older(found, monitor)
    }

    private func older(
      _ found: (ring: OpaquePointer, event: UnsafePointer<observer_event>)?,
      _ ring: OpaquePointer
    ) -> (ring: OpaquePointer, event: UnsafePointer<observer_event>)? {
      // SAFETY: an event stays valid until it is consumed, which only the recorder does.
      guard let event = observer_ring_read(ring) else { return found }
      if let found, found.event.pointee.order < event.pointee.order { return found }
      return (ring, event)
    }
  }

  /// Creates a recorder for the events in `rings`. Without `box`, stalls are not saved.
  ///
  /// `deliverEvent`, `name` and `deliver` must not block. `deliverEvent` reports that a stall begins or becomes a hang.
  /// `name` adds symbol names to the file of a stall under way. `deliver` receives each finished stall and must close
  /// its file; `nil` if the file is not kept.
  init(
    rings: Rings,
    process: ObservedProcess,
    box: BlackBoxWriter?,
    problems: ProblemList,
    modules: @escaping @Sendable () -> [Module],
    keepsRecovered: Bool,
    whileDebugged: Configuration.Sampling.Debugged,
    settings: ReportSettings,
    pending: PendingReports,
    deliverEvent: @escaping @Sendable (StallEvent) -> Void,
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
    self.pending = pending
    self.deliverEvent = deliverEvent
    self.notes = notes
    self.name = name
    self.deliver = deliver
    self.modules = modules
  }

  /// Makes ``run()`` return when the rings are empty. The monitor must have ended.
  func stop() {
    isStopping.store(true, ordering: .releasing)
    observer_ring_wake_reader(rings.monitor)
  }

  func requestThreads(_ control: ControlBlock) -> ThreadRequest {
    threadRequests.withLock { requests in
      // The number is taken under the lock: the answer must not arrive before the request is registered.
      let request = ThreadRequest(number: observer_control_want_threads(control.pointer))
      if requests.isClosed { request.answer.fulfill(nil) } else { requests.waiting.append(request) }
      return request
    }
  }

  func requestSoFar() -> SoFarRequest {
    let request = SoFarRequest()
    let isTaken = soFarRequests.withLock { requests in
      requests?.append(request)
      return requests != nil
    }
    if isTaken { observer_ring_wake_reader(rings.monitor) } else { request.end() }
    return request
  }

  /// Answers requests, then flushes the files of the stalls under way.
  private func answerSoFar(_ state: inout State) {
    let requests = soFarRequests.exchange([]) ?? []
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
        // Handlers must not wait for the end of a storm.
        if events % 256 == 0 { answerRecordings(state) }
        continue
      }
      updateFiles(&state)
      answerRecordings(state)
      answerSoFar(&state)
      if isStopping.load(ordering: .acquiring) { break }
      allowingFork { observer_ring_wait(rings.monitor, seen) }
    }
    finishAll(&state)
    for request in soFarRequests.exchange(nil) ?? [] { request.end() }
    for request in recordingRequests.exchange(nil) ?? [] { request.answer.fulfill(nil) }
    let left = threadRequests.exchange(ThreadRequests(isClosed: true)).waiting
    for request in left + (state.allThreads?.requests ?? []) { request.answer.fulfill(nil) }
  }

  private func finishAll(_ state: inout State) {
    let now = clinux_clock_ns()
    // A stuck thread can block others, so its report comes first.
    func rank(_ box: Box) -> Int {
      box.item.stall.map { ($0.source.kind == .section ? 2 : 0) + ($0.thread.id == 0 ? 1 : 0) } ?? .max
    }
    let stalled = state.items.filter { $0.value.item.stall != nil }
      .ordered { (rank($0.value), $0.value.item.item) < (rank($1.value), $1.value.item.item) }
    for (slot, box) in stalled {
      // In a storm the last age from the monitor's ring can be seconds old.
      box.item.updateAge(Self.age(slot, box.item.item))
      box.settle()
      endStorm(box, &state, now: now)
      if !box.item.isCounted { finish(&box.item) }
    }
    pending.finish()
  }

  /// Holds a non-copyable work item in a dictionary.
  final class Box {
    var item: RecordedWorkItem
    var counts: ItemCounts
    var member: Storms.Member?
    var task: ConcurrentStalls.Worker?
    var declared: UInt64 = 0
    init(_ item: consuming RecordedWorkItem, _ counts: ItemCounts) {
      self.item = item
      self.counts = counts
    }

    var worker: ConcurrentStalls.Worker? {
      task ?? item.stall.flatMap { $0.thread.id == 0 ? nil : .thread($0.thread.id) }
    }

    func settle() { if let stall = item.stall { counts.end(after: stall.duration) } }
  }

  struct State {
    var items: [Int: Box] = [:]
    /// The last ended work item of each slot, whose later samples are ignored.
    var ended: [Int: (item: UInt64, generation: UInt32)] = [:]
    var nextStallID: UInt64 = 1
    var sockets = SocketLookup()
    var allThreads: AllThreadsRecord?
    /// Code can be unloaded between suspicion and stall.
    var reading = ProcessReading()
    var overlaps = ConcurrentStalls()
    var fileLocks = FileLocks()
    var storms = Storms()
    var updated: UInt64 = 0
  }

  struct AllThreadsRecord {
    var number: UInt64
    var requests: [ThreadRequest]
    var all = AllThreads()
    var stacks = StackTable()
  }

  struct ThreadRequests {
    var waiting: [ThreadRequest] = []
    var isClosed = false
  }

  private func handle(_ event: UnsafePointer<observer_event>, _ state: inout State) {
    // SAFETY: the event stays valid until the ring's only reader consumes it.
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
      // A delayed sampler can deliver samples of a work item that has ended.
      let isSample = [OBSERVER_EVENT_SAMPLE.rawValue, OBSERVER_EVENT_STAYED.rawValue].contains(head.kind)
      if isSample, head.item < box.item.item { return }
      // The end event of the previous work item was lost.
      state.items[index] = nil
      finish(box, &state, now: head.time_ns)
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
      // The queue layout is needed only once a thread waits on a word that might belong to a queue.
      if head.lock.is_queues { _ = QueueLayout.current }
      CounterFiles.areKnown
      guard head.role == OBSERVER_OF_HOLDER.rawValue else {
        let box = box(index, head, &state)
        box.counts.sample(isTaken: head.status != OBSERVER_SAMPLER_STOPPED.rawValue)
        box.counts.lose(upTo: head.lost)
        box.item.add(captured)
        placeRecorded(box, &state)
        // Reading the file locks of the whole machine is slow.
        guard box.item.stall != nil else { return }
        if let note = state.fileLocks.note(captured.sample, process, now: clinux_clock_ns()) { box.item.add(note) }
        return
      }
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
        problems.note("a stall of a removed source was not recorded")
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
      // The announcement comes first: symbolizing, saving and collecting notes take time.
      let event = StallEvent(box.item.soFar(stall, process: process), stall, isHang: false, settings)
      if source.kind == .section {
        box.member = state.storms.begin(
          source,
          box.item.place,
          since: stall.began,
          age: head.age_ns,
          now: head.time_ns
        )
      }
      let isCounted = box.member?.isRecorded == false
      pending.begin(stall, event.words, in: .init(slot: index, item: head.item), isCounted: isCounted)
      deliverEvent(event)
      guard !isCounted else {
        box.item.count(stall)
        return isRecorded()
      }
      box.item.begin(
        stall,
        process: process,
        box: self.box,
        present: state.reading.presentModules(modules),
        isSaved: isRecorded
      )
      box.task = Self.task(index, head.item)
      box.declared = head.time_ns
      if let debugger { box.item.add(StallNote(.debugger, text: "process \(debugger)")) }
      for note in notes() + phaseNotes(source) { box.item.add(note) }
      let others = overlapNotes(box, state, at: head.time_ns) + meanwhileNotes(box, state, at: head.time_ns)
      for note in others { box.item.add(note) }
    case OBSERVER_EVENT_HANG.rawValue:
      guard let box = state.items[index], box.item.stall != nil else { return }
      let age = Duration(wholeNanoseconds: head.age_ns)
      box.counts.hang()
      box.item.add(StallNote(.hang, time: age))
      if var stall = box.item.stall {
        stall.duration = age
        deliverEvent(StallEvent(box.item.soFar(stall, process: process), stall, isHang: true, settings))
      }
      // A hang might never end, so its file receives the symbol names now.
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
      continueInStorm(box, index, &state, now: head.time_ns)
    case OBSERVER_EVENT_WORK_ITEM_ENDED.rawValue:
      state.ended[index] = (head.item, head.generation)
      guard let box = state.items.removeValue(forKey: index) else { break }
      box.counts.lose(upTo: head.lost)
      let ended = head.item &+ head.age_ns &+ head.gap_ns
      if !box.item.labels.isEmpty { state.overlaps.remember(labelled(box, ended: ended)) }
      if box.item.stall != nil {
        box.item.end(
          duration: Duration(wholeNanoseconds: head.age_ns),
          gap: Duration(wholeNanoseconds: head.gap_ns),
          lost: head.lost,
          spared: head.spared
        )
        if !box.item.isCounted {
          let others = overlapNotes(box, state, at: ended) + meanwhileNotes(box, state, at: ended)
          for note in others { box.item.add(note) }
          if let known = known(box, ended: ended) { state.overlaps.remember(known) }
        }
        finish(box, &state, now: head.time_ns)
      }
    default:
      break
    }
  }

  private func known(_ box: Box, ended: UInt64? = nil) -> ConcurrentStalls.Known? {
    box.item.stall.map { stall in
      ConcurrentStalls.Known(
        reportID: stall.reportID(in: process),
        worker: box.worker,
        seen: stall.thread.id == 0 ? nil : (stall.thread.id, box.declared),
        labels: box.item.labels,
        source: stall.source,
        began: box.item.item,
        ended: ended
      )
    }
  }

  private func overlapNotes(_ box: Box, _ state: State, at now: UInt64) -> [StallNote] {
    guard let one = known(box, ended: now), one.worker != nil || !one.labels.isEmpty else { return [] }
    // Thousands of requests can be late, so the filter is cheap.
    let thread = one.seen.map { ConcurrentStalls.Worker.thread($0.thread) }
    let others = state.items.values.lazy.filter { other in
      let worker = other.worker
      let isOfWorker = worker != nil && (worker == one.worker || worker == thread)
      let isOfThread = one.source.kind == .job && other.item.stall.map { .thread($0.thread.id) == one.worker } ?? false
      return (isOfWorker || isOfThread || !other.item.labels.isDisjoint(with: one.labels)) && !other.item.isCounted
    }
    return state.overlaps.notes(of: one, beside: others.compactMap { known($0) }, now: now)
  }

  /// Returns the notes about work that ran while `box`, the section of a suspended task, waited.
  private func meanwhileNotes(_ box: Box, _ state: State, at now: UInt64) -> [StallNote] {
    guard let stall = box.item.stall, stall.source.kind == .section, stall.thread.id == 0 else { return [] }
    let one = labelled(box, ended: now)
    guard one.place != .unknown else { return [] }
    let others = state.items.values.lazy.filter { !$0.item.isCounted && !$0.item.labels.isEmpty }
    return state.overlaps.meanwhile(one, beside: others.map { self.labelled($0) }, now: now)
  }

  private func labelled(_ box: Box, ended: UInt64? = nil) -> ConcurrentStalls.Labelled {
    ConcurrentStalls.Labelled(
      labels: box.item.labels,
      place: box.item.place,
      reportID: box.item.stall?.reportID(in: process),
      began: box.item.item,
      ended: ended
    )
  }

  /// Returns the task of a work item; `nil` without a task or after the work item's end.
  static func task(_ index: Int, _ item: UInt64) -> ConcurrentStalls.Worker? {
    // SAFETY: `index` is below OBSERVER_SLOTS_MAX, the size of the table, which is never freed.
    guard let view = observer_slot_table().map({ observer_slot_read($0 + index) }), view.item == item,
      view.owner_kind == OBSERVER_OWNER_TASK
    else { return nil }
    return .task(view.owner.task, view.owner_task_id)
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

  /// Converts `time` on the observer's clock to the time of day.
  static func timeOfDay(_ time: UInt64) -> WallTime {
    // A context switch between the clock reads would skew the result, so slow reads are repeated.
    var (earlier, wall, later) = (clinux_clock_ns(), clinux_clock_wall_ns(), clinux_clock_ns())
    for _ in 0..<10 where later &- earlier > 20_000 {
      (earlier, wall, later) = (clinux_clock_ns(), clinux_clock_wall_ns(), clinux_clock_ns())
    }
    let began = earlier >= time ? wall.saturatingDifference(earlier - time) : wall.saturatingSum(time - earlier)
    return WallTime(nanosecondsSince1970: began)
  }

  private func finish(_ box: Box, _ state: inout State, now: UInt64) {
    guard let stall = box.item.stall else { return }
    box.settle()
    endStorm(box, &state, now: now)
    if box.item.isCounted { pending.uncount(stall.source) } else { finish(&box.item) }
  }

  private func finish(_ item: inout RecordedWorkItem) {
    if let source = item.stall?.source { for note in phaseNotes(source) where note.kind != .likely { item.add(note) } }
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

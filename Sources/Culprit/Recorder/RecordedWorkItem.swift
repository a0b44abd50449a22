import CulpritStallRecord

/// A work item that has been sampled: what the recorder knows of it, and its file once it is a stall.
struct RecordedWorkItem: ~Copyable {
  let item: UInt64
  let generation: UInt32
  /// The all-threads capture whose threads belong to this stall.
  var allThreads: UInt64?
  private(set) var stall: Stall?
  /// The samples that were not taken for want of processor time.
  private var spared: UInt64 = 0
  /// Whether the stall is only counted.
  private(set) var isCounted = false
  /// The first labels of the work.
  private(set) var labels: Set<String> = []
  private var store = SampleStore()
  private var holders = HolderStore()
  /// What observing the work item cost before it was a stall.
  private var cost = ObservationCost()
  private var others: AllThreads?
  private var otherStacks = StackTable()
  /// Other threads that a capture has brought that was not finished.
  private var knownOthers: Set<Int32> = []
  private var modules: ModuleList
  /// Where the stall is saved, if it is.
  private(set) var file: StallFileQueue?
  /// Other threads that found no room on their way to the file.
  private var othersRefused = 0
  /// The last system call that each of the work item's threads was seen in, and where.
  private var lastCalls: [Int32?: (call: Int32, place: StackFrame)] = [:]

  private static let labelsMax = 16

  /// A work item that was sampled for the first time when the process had the modules `earlier`; `read` reads those
  /// that it has.
  init(item: UInt64, generation: UInt32, earlier: [Module], read: @escaping @Sendable () -> [Module]) {
    self.item = item
    self.generation = generation
    modules = ModuleList(earlier: earlier, read: read)
  }

  /// Adds a look at the work item's thread.
  mutating func add(_ captured: CapturedSample) {
    guard !isCounted else { return }
    var captured = captured
    nameRestarted(&captured)
    let kept = store.add(captured.sample, stack: captured.stack)
    cost.add(captured.sample)
    if !captured.sample.label.isEmpty, labels.count < Self.labelsMax { labels.insert(captured.sample.label) }
    guard stall != nil else { return }
    stall?.duration = captured.sample.age
    stall?.gap = captured.gap
    stall?.lostSamples = captured.lost
    stall?.cost = cost
    if kept { save(captured.sample, captured.stack) }
  }

  /// A look at the work item's task, which is suspended, has found it where its last sample did.
  mutating func stayed(age: Duration, gap: Duration, lost: UInt64) {
    guard let (sample, stack, isKept) = store.repeatLast(at: age) else { return }
    cost.add(sample)
    guard stall != nil else { return }
    stall?.duration = age
    stall?.gap = gap
    stall?.lostSamples = lost
    stall?.cost = cost
    if isKept { save(sample, stack) }
  }

  /// Adds a look at a thread that holds what the work item's waits for.
  mutating func add(_ holder: HolderSample, stack: Stack?) {
    guard !isCounted else { return }
    cost.add(holder.sample)
    let kept = holders.add(holder, stack: stack)
    guard stall != nil else { return }
    stall?.cost = cost
    if kept { save(holder, stack) }
  }

  /// A call that was restarted, and of which the code does not say which it is, is the one that was seen there before.
  private mutating func nameRestarted(_ captured: inout CapturedSample) {
    guard let place = captured.stack?.frames.first else { return }
    switch captured.sample.activity {
    case .inSystemCall(let call), .inRestartedCall(.some(let call)):
      lastCalls[captured.sample.threadID] = (call, place)
    case .inRestartedCall(nil):
      if let last = lastCalls[captured.sample.threadID], last.place == place {
        captured.sample.activity = .inRestartedCall(last.call)
      }
    default: break
    }
  }

  /// The place where the work item was seen last.
  var place: Storms.Place { store.latestStack.map { Storms.Place($0) } ?? .unknown }

  /// The work item has become `stall`, which is only counted: nothing that was seen of it is kept.
  mutating func count(_ stall: Stall) {
    self = RecordedWorkItem(item: item, generation: generation, earlier: [], read: { [] })
    self.stall = stall
    isCounted = true
  }

  /// The work item has become `stall`, which is saved in `box`, if one is given: `isSaved` is called once its file is there.
  /// The process has the modules `present`.
  mutating func begin(
    _ stall: Stall,
    process: ObservedProcess,
    box: BlackBoxWriter?,
    present: [Module]? = nil,
    isSaved: @escaping @Sendable () -> Void = {}
  ) {
    self.stall = stall
    self.stall?.cost = cost
    isCounted = false
    modules.load(present)
    let (samples, stacks) = store.content
    for stack in stacks + holders.table.stacks { modules.cover(stack) }
    guard let box else { return }
    file = StallFileQueue(
      box,
      process: process,
      stall: stall,
      modules: modules.all,
      samples: samples.map { ($0, $0.stack.map { stacks[$0] }) },
      holders: holders.samples.map { ($0, $0.sample.stack.map { holders.table.stacks[$0] }) },
      isSaved: isSaved
    )
  }

  /// The capture of all threads begins anew: those that have been captured are known already.
  mutating func beginOthersAnew() { knownOthers = Set(others?.threads.map(\.thread.id) ?? []) }

  /// Adds another thread, captured for this stall.
  mutating func add(other: ThreadSample, stack: Stack?) {
    guard let stall, !isCounted, other.thread.id != stall.thread.id, !knownOthers.contains(other.thread.id) else {
      return
    }
    var kept = other
    kept.stack = stack.map { otherStacks.place(of: $0) }
    if others == nil { others = AllThreads() }
    others?.threads.append(kept)
    cost.add(outcome: other.outcome, handlerTime: other.handlerTime, unwindTime: other.unwindTime)
    self.stall?.cost = cost
    let new = stack.map { modules.cover($0) } ?? []
    if file?.add(other: other, stack, new) == false { othersRefused += 1 }
  }

  /// All other threads have been captured, but for so many.
  mutating func endOthers(leftOut: Int) {
    guard stall != nil, !isCounted else { return }
    if others == nil { others = AllThreads() }
    others?.leftOut = leftOut
    others?.isComplete = true
    file?.endOthers(leftOut: leftOut + othersRefused)
  }

  /// Adds a note about the stall.
  mutating func add(_ note: StallNote) {
    // Who has a lock of a file is asked again and again.
    guard let stall, !isCounted, note.kind != .fileLock || !stall.notes.contains(note) else { return }
    self.stall?.notes.append(note)
    file?.add(note)
  }

  /// What is known of `stall`, which this work item has become, or is about to become.
  func soFar(_ stall: Stall, process: ObservedProcess) -> Recording {
    var stall = stall
    return Recording(process: process, stacks: fill(&stall), stalls: [stall])
  }

  /// Gives `stall` the samples. Returns the stacks that they refer to.
  private func fill(_ stall: inout Stall) -> [Stack] {
    let (samples, stacks) = store.content
    stall.samples = samples
    stall.holders = holders.samples.map { holder in
      var placed = holder
      // Their stacks come after those of the samples.
      placed.sample.stack = holder.sample.stack.map { $0 + stacks.count }
      return placed
    }
    return stacks + holders.table.stacks
  }

  /// The work goes on, and has taken `duration` by now.
  mutating func goesOn(duration: Duration, gap: Duration, lost: UInt64, spared: UInt64 = 0) {
    guard stall != nil else { return }
    self.spared = spared
    stall?.duration = duration
    stall?.gap = gap
    stall?.lostSamples = lost
    if let stall { file?.goesOn(stall) }
  }

  /// The work has ended.
  mutating func end(duration: Duration, gap: Duration, lost: UInt64, spared: UInt64 = 0) {
    self.spared = max(self.spared, spared)
    stall?.duration = duration
    stall?.gap = gap
    stall?.lostSamples = lost
    stall?.hasEnded = true
  }

  /// Completes the file, if the end of the work was seen, and returns what was recorded.
  mutating func finished(process: ObservedProcess) -> Recording? {
    guard !isCounted else { return nil }
    if spared > 0, stall?.hasEnded == true, stall?.sparedSamples == 0 { add(StallNote(.spared, text: "\(spared)")) }
    guard var stall else { return nil }
    let stacks = fill(&stall)
    for entry in store.takeLastBeside() { save(entry.sample, entry.stack) }
    if let ended = self.stall, ended.hasEnded { file?.end(ended) }
    if var others {
      // Their stacks come last.
      for index in others.threads.indices {
        others.threads[index].stack = others.threads[index].stack.map { $0 + stacks.count }
      }
      stall.others = others
    }
    return Recording(
      process: process,
      modules: modules.all,
      stacks: stacks + otherStacks.stacks,
      stalls: [stall]
    )
  }

  /// Brings what was saved so far to the disk. Returns the file, if there is to be one.
  func sync() -> StallFileQueue? {
    file?.sync()
    return file
  }

  /// Gives the file away: nothing more of it comes from here.
  mutating func release() -> StallFileQueue? {
    defer { file = nil }
    return file
  }

  private mutating func save(_ sample: Sample, _ stack: Stack?) {
    let new = stack.map { modules.cover($0) } ?? []
    file?.add(sample, stack, new)
  }

  private mutating func save(_ holder: HolderSample, _ stack: Stack?) {
    let new = stack.map { modules.cover($0) } ?? []
    file?.add(holder, stack, new)
  }
}

/// Distinct stacks, each of which has a place.
struct StackTable {
  private(set) var stacks: [Stack] = []
  private var places: [Stack: Int] = [:]

  /// The place of `stack`, which is added if it is new.
  mutating func place(of stack: Stack) -> Int {
    if let place = places[stack] { return place }
    places[stack] = stacks.count
    stacks.append(stack)
    return stacks.count - 1
  }
}

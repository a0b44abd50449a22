import CulpritStallRecord

struct RecordedWorkItem: ~Copyable {
  let item: UInt64
  let generation: UInt32
  var allThreads: UInt64?
  private(set) var stall: Stall?
  private var spared: UInt64 = 0
  /// Whether the stall is counted without being recorded.
  private(set) var isCounted = false
  private(set) var labels: Set<String> = []
  private var store = SampleStore()
  private var holders = HolderStore()
  private var cost = ObservationCost()
  private var others: AllThreads?
  private var otherStacks = StackTable()
  /// Threads that an unfinished all-threads capture has already delivered.
  private var knownOthers: Set<Int32> = []
  private var modules: ModuleList
  /// `nil` if the stall is not saved.
  private(set) var file: StallFileQueue?
  /// Number of other threads that did not fit into the file queue.
  private var othersRefused = 0
  /// The last system call of each thread of the work item, and its innermost frame.
  private var lastCalls: [Int32?: (call: Int32, place: StackFrame)] = [:]

  private static let labelsMax = 16

  /// Creates a work item. `earlier` are the modules at the first sample; `read` reads the present ones.
  init(item: UInt64, generation: UInt32, earlier: [Module], read: @escaping @Sendable () -> [Module]) {
    self.item = item
    self.generation = generation
    modules = ModuleList(earlier: earlier, read: read)
  }

  var hasSample: Bool { !store.isEmpty }

  mutating func add(_ captured: CapturedSample) {
    guard !isCounted else { return }
    var captured = captured
    nameRestarted(&captured)
    let kept = store.add(captured.sample, stack: captured.stack)
    cost.add(captured.sample)
    if !captured.sample.label.isEmpty, labels.count < Self.labelsMax { labels.insert(captured.sample.label) }
    guard stall != nil else { return }
    update(captured.sample.age, captured.gap, lost: captured.lost)
    if kept { save(captured.sample, captured.stack) }
  }

  private mutating func update(_ duration: Duration, _ gap: Duration, lost: UInt64) {
    stall?.duration = duration
    stall?.gap = gap
    stall?.lostSamples = lost
    stall?.cost = cost
  }

  /// Repeats the last sample: the work item's task is still suspended with the same stack.
  mutating func stayed(age: Duration, gap: Duration, lost: UInt64) {
    guard let (sample, stack, isKept) = store.repeatLast(at: age) else { return }
    cost.add(sample)
    guard stall != nil else { return }
    update(age, gap, lost: lost)
    if isKept { save(sample, stack) }
  }

  mutating func add(_ holder: HolderSample, stack: Stack?) {
    guard !isCounted else { return }
    cost.add(holder.sample)
    let kept = holders.add(holder, stack: stack)
    guard stall != nil else { return }
    stall?.cost = cost
    if kept { save(holder, stack) }
  }

  /// Names a restarted call of unknown number after the thread's last call in the same frame.
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

  var place: Storms.Place { store.latestStack.map { Storms.Place($0) } ?? .unknown }

  /// Counts `stall` and discards the samples.
  mutating func count(_ stall: Stall) {
    self = RecordedWorkItem(item: item, generation: generation, earlier: [], read: { [] })
    self.stall = stall
    isCounted = true
  }

  /// Saves `stall` in `box`, unless `nil`. Calls `isSaved` when the file exists.
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

  /// Ignores known threads in a repeated capture.
  mutating func ignoreKnownOthers() { knownOthers = Set(others?.threads.map(\.thread.id) ?? []) }

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

  mutating func endOthers(leftOut: Int) {
    guard stall != nil, !isCounted else { return }
    if others == nil { others = AllThreads() }
    others?.leftOut = leftOut
    others?.isComplete = true
    file?.endOthers(leftOut: leftOut + othersRefused)
  }

  mutating func add(_ note: StallNote) {
    // Repeated reads of file locks give equal notes.
    guard let stall, !isCounted, note.kind != .fileLock || !stall.notes.contains(note) else { return }
    if note.kind == .count { self.stall?.notes.removeAll { $0.kind == .count } }
    self.stall?.notes.append(note)
    file?.add(note)
  }

  func soFar(_ stall: Stall, process: ObservedProcess) -> Recording {
    var stall = stall
    return Recording(process: process, stacks: fill(&stall), stalls: [stall])
  }

  /// Returns the stacks to which the samples of `stall` refer.
  private func fill(_ stall: inout Stall) -> [Stack] {
    let (samples, stacks) = store.content
    stall.samples = samples
    stall.holders = holders.samples.map { holder in
      var placed = holder
      // Stacks of lock owners follow the stacks of samples.
      placed.sample.stack = holder.sample.stack.map { $0 + stacks.count }
      return placed
    }
    return stacks + holders.table.stacks
  }

  /// Updates the stall in memory and in its file.
  mutating func goesOn(duration: Duration, gap: Duration, lost: UInt64, spared: UInt64 = 0) {
    guard stall != nil else { return }
    self.spared = spared
    update(duration, gap, lost: lost)
    if let stall { file?.goesOn(stall) }
  }

  /// Updates the duration if `age` exceeds the last known age.
  mutating func updateAge(_ age: Duration) {
    guard var stall, age > stall.duration else { return }
    stall.duration = age
    self.stall = stall
    file?.goesOn(stall)
  }

  mutating func end(duration: Duration, gap: Duration, lost: UInt64, spared: UInt64 = 0) {
    self.spared = max(self.spared, spared)
    update(duration, gap, lost: lost)
    stall?.hasEnded = true
  }

  /// Completes the file if the stall has ended.
  mutating func finished(process: ObservedProcess) -> Recording? {
    guard !isCounted else { return nil }
    if spared > 0, stall?.hasEnded == true, stall?.sparedSamples == 0 { add(StallNote(.spared, text: "\(spared)")) }
    guard var stall else { return nil }
    let stacks = fill(&stall)
    for entry in store.takeLastBeside() { save(entry.sample, entry.stack) }
    if let ended = self.stall, ended.hasEnded { file?.end(ended) }
    if var others {
      // The stacks of the other threads come last.
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

  func sync() -> StallFileQueue? {
    file?.sync()
    return file
  }

  /// Returns the file, which this work item no longer writes.
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

struct StackTable {
  private(set) var stacks: [Stack] = []
  private var places: [Stack: Int] = [:]

  mutating func place(of stack: Stack) -> Int {
    if let place = places[stack] { return place }
    places[stack] = stacks.count
    stacks.append(stack)
    return stacks.count - 1
  }
}

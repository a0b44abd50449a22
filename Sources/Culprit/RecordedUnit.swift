import CObserver
import StallRecord

/// A unit of work that has been sampled: what the recorder knows of it, and its file once it is a stall.
struct RecordedUnit: ~Copyable {
  let unit: UInt64
  let generation: UInt32
  /// The sweep whose threads belong to this stall.
  var sweep: UInt64?
  private(set) var stall: Stall?
  private var store = SampleStore()
  /// What observing the unit cost before it was a stall.
  private var cost = ObservationCost()
  private var others: AllThreads?
  private var otherStacks = StackTable()
  private var modules: ModuleList
  private var sink: StallFileSink?
  /// The stacks that the file has, by the number that its samples refer to them with, as far as they are remembered.
  private var savedStacks: [Stack: Int] = [:]
  private var savedStackCount = 0
  /// Samples that did not find their way to the disk.
  private var unsaved: UInt64 = 0

  /// A unit that was sampled for the first time when the process had the modules `earlier`.
  init(unit: UInt64, generation: UInt32, earlier: [Module]) {
    self.unit = unit
    self.generation = generation
    modules = ModuleList(earlier: earlier)
  }

  /// The first error of the file, if it has one.
  var failure: String? {
    switch sink {
    case .some(let sink): sink.failure
    case .none: nil
    }
  }

  /// Adds a look at the unit's thread.
  mutating func add(_ look: RecordedLook) {
    let kept = store.add(look.sample, stack: look.stack)
    cost.add(outcome: look.sample.outcome, handlerTime: look.sample.handlerTime, unwindTime: look.sample.unwindTime)
    guard stall != nil else { return }
    stall?.duration = look.sample.age
    stall?.gap = look.gap
    stall?.lostSamples = look.lost
    stall?.cost = cost
    if kept { save(look.sample, look.stack) }
  }

  /// The unit has become `stall`, which is saved in `directory`, if one is given.
  mutating func begin(_ stall: Stall, process: ObservedProcess, directory: String?) throws(StallFileSinkError) {
    self.stall = stall
    self.stall?.cost = cost
    modules.load()
    let (samples, stacks) = store.content
    for stack in stacks { modules.cover(stack) }
    guard let directory else { return }
    sink = try StallFileSink(directory: directory, process: process, stall: stall)
    sink?.append(StallFileWriter.header())
    sink?.append(StallFileWriter.record(of: process))
    for module in modules.all { sink?.append(StallFileWriter.record(of: module)) }
    sink?.append(StallFileWriter.record(of: stall.thread))
    sink?.append(StallFileWriter.record(ofBeginOf: stall))
    sink?.replace(StallFileWriter.record(ofStateOf: stall))
    for sample in samples { save(sample, sample.stack.map { stacks[$0] }) }
  }

  /// Adds another thread, captured for this stall.
  mutating func add(other: ThreadSample, stack: Stack?) {
    guard let stall, other.thread.id != stall.thread.id else { return }
    var kept = other
    kept.stack = stack.map { otherStacks.place(of: $0) }
    if others == nil { others = AllThreads() }
    others?.threads.append(kept)
    cost.add(outcome: other.outcome, handlerTime: other.handlerTime, unwindTime: other.unwindTime)
    self.stall?.cost = cost
    guard sink != nil else {
      if let stack { modules.cover(stack) }
      return
    }
    var saved = other
    saved.stack = stack.flatMap { save($0) }
    sink?.append(StallFileWriter.record(of: other.thread))
    sink?.append(StallFileWriter.record(of: saved, stallID: stall.id))
  }

  /// All other threads have been captured, but for so many.
  mutating func endOthers(leftOut: Int) {
    guard let stall else { return }
    if others == nil { others = AllThreads() }
    others?.leftOut = leftOut
    others?.isComplete = true
    sink?.append(StallFileWriter.record(ofOthersLeftOut: leftOut, stallID: stall.id))
  }

  /// Adds a note about the stall.
  mutating func add(_ note: StallNote) {
    guard stall != nil else { return }
    stall?.notes.append(note)
    if let id = stall?.id { sink?.append(StallFileWriter.record(of: note, stallID: id)) }
  }

  /// What is known of `stall`, which this unit has become, or is about to become.
  func soFar(_ stall: Stall, process: ObservedProcess) -> Recording {
    var stall = stall
    let (samples, stacks) = store.content
    stall.samples = samples
    return Recording(process: process, stacks: stacks, stalls: [stall])
  }

  /// The work goes on, and has taken `duration` by now.
  mutating func goesOn(duration: Duration, gap: Duration, lost: UInt64) {
    guard stall != nil else { return }
    stall?.duration = duration
    stall?.gap = gap
    stall?.lostSamples = lost
    if let saved = savedStall { sink?.replace(StallFileWriter.record(ofStateOf: saved)) }
  }

  /// The stall as the file has it: with what the disk has cost it, too.
  private var savedStall: Stall? {
    var saved = stall
    saved?.lostSamples += unsaved
    return saved
  }

  /// The work has ended.
  mutating func end(duration: Duration, gap: Duration, lost: UInt64) {
    stall?.duration = duration
    stall?.gap = gap
    stall?.lostSamples = lost
    stall?.hasEnded = true
  }

  /// Completes the file, if the end of the work was seen, and returns what was recorded.
  mutating func finished(process: ObservedProcess) -> Recording? {
    guard var stall else { return nil }
    let (samples, stacks) = store.content
    stall.samples = samples
    for entry in store.lastBeside { save(entry.sample, entry.stack) }
    if let saved = savedStall, saved.hasEnded { sink?.append(StallFileWriter.record(ofEndOf: saved)) }
    if var others {
      // Their stacks come after those of the samples.
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

  /// Brings what was saved so far to the disk.
  mutating func flush() { sink?.flush() }

  /// Closes the file, and removes it if it is not to be kept.
  mutating func close(keepsFile: Bool) {
    if !keepsFile { sink?.remove() }
    sink = nil
  }

  private mutating func save(_ sample: Sample, _ stack: Stack?) {
    guard let stall, sink != nil else {
      if let stack { modules.cover(stack) }
      return
    }
    var saved = sample
    saved.stack = stack.flatMap { save($0) }
    let isSaved = sink?.append(StallFileWriter.record(of: saved, stallID: stall.id)) ?? false
    if !isSaved || saved.stack == nil && stack != nil { unsaved += 1 }
  }

  /// Writes `stack`, if the file does not have it, and the modules that are new in it. Returns its number in the file, `nil`
  /// when it could not be written.
  private mutating func save(_ stack: Stack) -> Int? {
    if let number = savedStacks[stack] { return number }
    for module in modules.cover(stack) { sink?.append(StallFileWriter.record(of: module)) }
    let number = savedStackCount
    guard sink?.append(StallFileWriter.record(of: stack, index: number)) == true else { return nil }
    savedStackCount += 1
    // A forgotten stack is written once more: memory stays bounded however long the stall lasts.
    if savedStacks.count == SampleStore.limit { savedStacks = [:] }
    savedStacks[stack] = number
    return number
  }
}

/// A look at a watched thread, as it came out of the ring.
struct RecordedLook {
  var sample: Sample
  var stack: Stack?
  var gap: Duration
  var lost: UInt64
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

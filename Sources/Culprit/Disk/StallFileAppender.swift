import CCulpritLinux
import CulpritStallRecord
import Glibc

/// The `.stall` file of one stall. It grows while the stall lasts and is readable at every moment.
///
/// Used only by the disk thread. Samples that cannot be written are counted. Other records are retried before any later
/// record.
struct StallFileAppender: ~Copyable {
  private var file: AppendOnlyFile
  private let directory: String
  private let process: ObservedProcess
  private let run: RunFile
  private let openFiles: OpenFiles
  private let fsyncs: FsyncScheduler
  private let problems: ProblemList
  /// The state of the stall as known to the file.
  private var stall: Stall
  /// A tag that identifies records of this file.
  private let tag: UInt16
  /// The place of the state record, which is overwritten repeatedly; `nil` until the beginning is written.
  private var statePlace: off_t?
  /// Records that must be written before any later record.
  private var owed: [[UInt8]] = []
  /// The modules written to the file or pending.
  private var modules: [Module] = []
  /// Stacks already in the file, with their numbers in samples. Limited to ``stacksMax``.
  private var stacks: [Stack: Int] = [:]
  private var stackCount = 0
  /// The limit of remembered stacks, equal to the number of samples of a stall in memory.
  private static let stacksMax = 2048
  /// The threads whose names are in the file, with the latest name.
  private var names: [Int32: String] = [:]
  /// The number of samples and of other threads in the file.
  private var saved: UInt64 = 0
  private var othersSaved = 0
  /// The number of samples and of other threads that could not be written.
  private var unsaved: UInt64 = 0
  private var othersUnsaved = 0
  private var areNamesWhole = true
  private var lastSync: UInt64 = 0
  /// The position in the list of files waiting for a sync.
  private var place = FsyncScheduler.Place()
  /// The time of the next check whether the file has been removed.
  private var nextCheck: UInt64 = 0

  /// The time between checks whether the file has been removed.
  private static let checkInterval: UInt64 = 1_000_000_000

  /// Creates the file of `stall` in the directory of `box`. File names sort by time.
  init(_ box: BlackBoxWriter, process: ObservedProcess, stall: Stall) throws(AppendOnlyFileError) {
    // A launch begins before its watchdog starts, and begin marks have the resolution of their clock. The name must
    // sort after that of the run.
    let time =
      stall.began.nanosecondsSince1970 > process.watchedSince.nanosecondsSince1970 ? stall.began : process.watchedSince
    let name = "culprit-\(time.fileNamePart)-\(process.id)-\(stall.id).stall"
    file = try AppendOnlyFile(path: "\(box.directory)/\(name)", among: box.openFiles)
    directory = box.directory
    run = box.run
    openFiles = box.openFiles
    fsyncs = box.fsyncs
    problems = box.problems
    tag = UInt16.random(in: 1...UInt16.max)
    self.process = process
    self.stall = stall
  }

  deinit { fsyncs.leave(place) }

  /// Whether the beginning of the stall is in the file.
  var hasBeginning: Bool { statePlace != nil }

  /// The first error.
  var failure: String? { file.failure }

  /// Updates the problem list: adds the present problems of the file, and removes those of `former` that have ended.
  func updateProblems(since former: [ProblemList.Kind: String]) {
    let present = file.problems
    for (kind, sentence) in present { problems.note(sentence, kind) }
    for kind in former.keys where present[kind] == nil { problems.end(kind) }
  }

  /// The present problems of the file.
  var presentProblems: [ProblemList.Kind: String] { file.problems }

  /// Writes the beginning with the known modules.
  mutating func begin(_ modules: [Module]) {
    // Shares the list instead of copying it: many stalls have equal lists.
    if self.modules.isEmpty { self.modules = modules } else { self.modules += modules }
    owed += modules.map { StallFileWriter.record(of: $0) }
    _ = settle()
  }

  /// Adds a sample with its stack and newly seen modules.
  mutating func add(_ sample: Sample, _ stack: Stack?, _ modules: [Module]) {
    owe(modules)
    var saved = sample
    saved.stack = stack.flatMap { save($0) }
    let isWhole = saved.stack != nil || stack == nil
    if append(StallFileWriter.record(of: saved, stallID: stall.id)), isWhole { self.saved += 1 } else { unsaved += 1 }
  }

  /// Adds a sample of a resource owner with its stack and newly seen modules.
  mutating func add(_ holder: HolderSample, _ stack: Stack?, _ modules: [Module]) {
    owe(modules)
    var saved = holder
    saved.sample.stack = stack.flatMap { save($0) }
    let isKnown = names.updateValue(holder.thread.name, forKey: holder.thread.id) == holder.thread.name
    let name = isKnown ? [] : StallFileWriter.record(of: holder.thread)
    _ = append(name + StallFileWriter.record(of: saved, stallID: stall.id))
  }

  /// Adds another thread.
  mutating func add(other: ThreadSample, _ stack: Stack?, _ modules: [Module]) {
    owe(modules)
    var saved = other
    saved.stack = stack.flatMap { save($0) }
    let records =
      StallFileWriter.record(of: other.thread) + StallFileWriter.record(of: saved, stallID: stall.id)
    if append(records) { othersSaved += 1 } else { othersUnsaved += 1 }
  }

  /// Marks the end of the other threads. `leftOut` is the number of threads that were not captured.
  mutating func endOthers(leftOut: Int) {
    owed.append(StallFileWriter.record(ofOthersLeftOut: leftOut + othersUnsaved, stallID: stall.id))
    _ = settle()
    syncIfDue()
  }

  /// Adds a note about the stall.
  mutating func add(_ note: StallNote) {
    owed.append(StallFileWriter.record(of: note, stallID: stall.id))
    _ = settle()
  }

  /// Updates the state of the stall. `refused` is the number of samples that the queue refused.
  mutating func goesOn(_ stall: Stall, refused: UInt64) {
    self.stall = stall
    self.stall.lostSamples += refused
    _ = settle()
    // Needed even if pending records have no room: the state takes no extra space, and requires only the beginning.
    writeState()
    let now = clinux_clock_ns()
    if now >= nextCheck {
      nextCheck = now &+ Self.checkInterval
      returnIfGone()
    }
    syncIfDue()
  }

  /// Writes the end of the stall. `refused` is the number of samples that the queue refused.
  mutating func end(_ stall: Stall, refused: UInt64) {
    self.stall = stall
    self.stall.lostSamples += refused
    returnIfGone()
    let isSettled = settle()
    // If there is no room for an end record, the state record contains the end.
    writeState()
    if isSettled { put(StallFileWriter.record(ofEndOf: state)) }
  }

  /// Adds records with symbol names of addresses.
  mutating func add(names records: [UInt8]) { if !append(records) { areNamesWhole = false } }

  /// Marks the names as complete.
  mutating func endNames() {
    if areNamesWhole, settle() { put(StallFileWriter.recordOfNamesLookedUp()) }
  }

  /// Syncs the file, and after its creation also the directory.
  mutating func sync() {
    file.flush()
    if lastSync == 0 { DirectoryFiles.flush(directory) }
    lastSync = clinux_clock_ns()
    fsyncs.synced(&place, at: lastSync)
  }

  /// Removes the file. It is closed when this value is destroyed.
  mutating func remove() { file.remove() }

  /// Removes the file if nothing could be written to it.
  mutating func removeIfEmpty() { if file.bytes == 0 { file.remove() } }

  /// The state of the stall, including the samples lost on the way to the disk.
  private var state: Stall {
    var state = stall
    state.lostSamples += unsaved
    return state
  }

  private mutating func writeState() {
    guard let statePlace else { return }
    var record = StallFileWriter.record(ofStateOf: state)
    StallFileWriter.tag(&record, tag)
    file.replace(record, at: statePlace)
  }

  private mutating func owe(_ modules: [Module]) {
    guard !modules.isEmpty else { return }
    self.modules += modules
    owed += modules.map { StallFileWriter.record(of: $0) }
  }

  /// Writes the beginning and pending records. Returns whether all are written.
  private mutating func settle() -> Bool {
    if statePlace == nil {
      // Written as one piece; otherwise readers could find samples of an unknown stall.
      let header = StallFileWriter.header()
      let head =
        StallFileWriter.record(of: process) + StallFileWriter.record(of: stall.thread)
        + StallFileWriter.record(ofBeginOf: stall)
      var records = head + StallFileWriter.record(ofStateOf: state)
      StallFileWriter.tag(&records, tag)
      guard file.append(header + records) else { return false }
      statePlace = off_t(header.count + head.count)
    }
    while let record = owed.first {
      guard put(record) else { return false }
      owed.removeFirst()
    }
    return true
  }

  private mutating func append(_ records: [UInt8]) -> Bool { settle() && put(records) }

  @discardableResult
  private mutating func put(_ records: [UInt8]) -> Bool {
    var tagged = records
    StallFileWriter.tag(&tagged, tag)
    return file.append(tagged)
  }

  /// Writes `stack` if the file does not contain it. Returns its number in the file, `nil` if it could not be written.
  private mutating func save(_ stack: Stack) -> Int? {
    if let number = stacks[stack] { return number }
    guard append(StallFileWriter.record(of: stack, index: stackCount)) else { return nil }
    defer { stackCount += 1 }
    // A forgotten stack is written again. The memory stays bounded however long the stall lasts.
    if stacks.count == Self.stacksMax { stacks = [:] }
    stacks[stack] = stackCount
    return stackCount
  }

  /// Creates the file again if it has been unlinked, directly or with its directory. The contents of an open file are
  /// copied. For a closed file, the samples are lost and counted.
  private mutating func returnIfGone() {
    let isGone = file.isGone
    if file.wasClosed {
      // The service might have closed the run file as well.
      run.ensure()
      problems.note("\(directory): the service has closed files that are not its own; they have been opened again")
    }
    guard isGone, !run.isOutOfReach else { return }
    // The run file might have been removed as well. Without it, the next launch does not report this stall.
    run.ensure()
    do throws(DirectoryError) { try DirectoryFiles.prepare(directory) } catch { return }
    guard var anew = try? AppendOnlyFile(path: file.path, among: openFiles) else { return }
    let isLost = !file.isReadable
    guard isLost || file.copy(to: &anew) else {
      anew.remove()
      return
    }
    problems.note("\(file.path) was removed while it was written, and has been made anew")
    file = anew
    lastSync = 0
    if isLost { beginAnew() }
  }

  /// Queues everything for an empty file except samples and other threads, which are lost.
  private mutating func beginAnew() {
    statePlace = nil
    owed =
      modules.map { StallFileWriter.record(of: $0) }
      + stall.notes.map { StallFileWriter.record(of: $0, stallID: stall.id) }
    (stacks, stackCount, names) = ([:], 0, [:])
    unsaved += saved
    othersUnsaved += othersSaved
    (saved, othersSaved) = (0, 0)
    areNamesWhole = false
    _ = settle()
  }

  private mutating func syncIfDue() {
    let now = clinux_clock_ns()
    if fsyncs.isTurn(&place, lastSync: lastSync, now: now) { sync() }
  }
}

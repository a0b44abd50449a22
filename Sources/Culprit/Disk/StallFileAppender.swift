import CCulpritLinux
import CulpritStallRecord
import Glibc

/// The `.stall` file of one stall, which grows while the stall lasts and can be read at every moment.
///
/// Used by the disk thread only. What cannot be written is counted, if it is a sample, or tried again before everything
/// else.
struct StallFileAppender: ~Copyable {
  private var file: AppendOnlyFile
  private let directory: String
  private let process: ObservedProcess
  private let run: RunFile
  private let openFiles: OpenFiles
  private let fsyncs: FsyncScheduler
  private let problems: ProblemList
  /// The stall as far as the file is to tell of it.
  private var stall: Stall
  /// What tells the file's records from those of other files.
  private let tag: UInt16
  /// Where the record is that is written over and over, once the file has its beginning.
  private var statePlace: off_t?
  /// Records that must be there before anything else that follows.
  private var owed: [[UInt8]] = []
  /// The modules that the file has or is owed.
  private var modules: [Module] = []
  /// The stacks that the file has, by the number that samples refer to them with, as far as they are remembered.
  private var stacks: [Stack: Int] = [:]
  private var stackCount = 0
  /// Most stacks remembered: as many as a stall has samples in memory.
  private static let stacksMax = 2048
  /// The threads that the file has names of, with the last one.
  private var names: [Int32: String] = [:]
  /// Samples and other threads that the file has.
  private var saved: UInt64 = 0
  private var othersSaved = 0
  /// Samples that the file does not have, and other threads.
  private var unsaved: UInt64 = 0
  private var othersUnsaved = 0
  private var areNamesWhole = true
  private var lastSync: UInt64 = 0
  /// Among the files that wait to be synced.
  private var place = FsyncScheduler.Place()
  /// When it is looked at whether the file is still in its place.
  private var nextCheck: UInt64 = 0

  /// How often it is looked at whether the file is still in its place.
  private static let checkInterval: UInt64 = 1_000_000_000

  /// Creates the file of `stall` in the directory of `box`. Its name sorts by time.
  init(_ box: BlackBoxWriter, process: ObservedProcess, stall: Stall) throws(AppendOnlyFileError) {
    // A launch begins before its watchdog does, and marks are as coarse as their clock; the name tells which run it
    // belongs to.
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

  /// Whether the file says what is stalled.
  var hasBeginning: Bool { statePlace != nil }

  /// The first error.
  var failure: String? { file.failure }

  /// Writes the beginning, with the modules that are known.
  mutating func begin(_ modules: [Module]) {
    // Not a copy: many stalls have the same list.
    if self.modules.isEmpty { self.modules = modules } else { self.modules += modules }
    owed += modules.map { StallFileWriter.record(of: $0) }
    _ = settle()
  }

  /// Adds a sample with its stack, and the modules that are new in it.
  mutating func add(_ sample: Sample, _ stack: Stack?, _ modules: [Module]) {
    owe(modules)
    var saved = sample
    saved.stack = stack.flatMap { save($0) }
    let isWhole = saved.stack != nil || stack == nil
    if append(StallFileWriter.record(of: saved, stallID: stall.id)), isWhole { self.saved += 1 } else { unsaved += 1 }
  }

  /// Adds a sample of a thread that held something, with its stack, and the modules that are new in it.
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

  /// All other threads have been captured, but for so many.
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

  /// The stall has come as far as `stall` says; `refused` of its samples never came here.
  mutating func goesOn(_ stall: Stall, refused: UInt64) {
    self.stall = stall
    self.stall.lostSamples += refused
    _ = settle()
    // Also where there is no room for what is owed: it takes none, and only the beginning of the stall must be there.
    writeState()
    let now = clinux_clock_ns()
    if now >= nextCheck {
      nextCheck = now &+ Self.checkInterval
      returnIfGone()
    }
    syncIfDue()
  }

  /// The stall has ended as `stall` says; `refused` of its samples never came here.
  mutating func end(_ stall: Stall, refused: UInt64) {
    self.stall = stall
    self.stall.lostSamples += refused
    returnIfGone()
    let isSettled = settle()
    // Where there is no room for an end, this says it.
    writeState()
    if isSettled { put(StallFileWriter.record(ofEndOf: state)) }
  }

  /// Adds `records` of what addresses are called.
  mutating func add(names records: [UInt8]) { if !append(records) { areNamesWhole = false } }

  /// Every name is there that can be.
  mutating func endNames() {
    if areNamesWhole, settle() { put(StallFileWriter.recordOfNamesLookedUp()) }
  }

  /// Brings everything to the disk.
  mutating func sync() {
    file.flush()
    if lastSync == 0 { DirectoryFiles.flush(directory) }
    lastSync = clinux_clock_ns()
    fsyncs.synced(&place, at: lastSync)
  }

  /// Removes the file; it is closed when this value is let go.
  mutating func remove() { file.remove() }

  /// Removes a file that nothing could be written to.
  mutating func removeIfEmpty() { if file.bytes == 0 { file.remove() } }

  /// The stall with what the disk has cost it, too.
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

  /// Writes what must be there before anything else. Returns whether it is there.
  private mutating func settle() -> Bool {
    if statePlace == nil {
      // In one piece, or a reader would find samples of a stall that it knows nothing of.
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

  /// Writes `stack`, if the file does not have it. Returns its number in the file, `nil` when it could not be written.
  private mutating func save(_ stack: Stack) -> Int? {
    if let number = stacks[stack] { return number }
    guard append(StallFileWriter.record(of: stack, index: stackCount)) else { return nil }
    defer { stackCount += 1 }
    // A forgotten stack is written once more: memory stays bounded however long the stall lasts.
    if stacks.count == Self.stacksMax { stacks = [:] }
    stacks[stack] = stackCount
    return stackCount
  }

  /// Makes the file anew when it has been removed, directly or with its directory. A file that is open keeps what it
  /// had; of one that is closed, the samples are lost and counted.
  private mutating func returnIfGone() {
    let isGone = file.isGone
    if file.wasClosed {
      // With it the file of the run.
      run.ensure()
      problems.note("\(directory): the service has closed files that are not its own; they have been opened again")
    }
    guard isGone, !run.isOutOfReach else { return }
    // What has removed the one may have removed the other, and without that of the run nobody is told of this one.
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

  /// Owes an empty file everything but the samples and the other threads, which are gone.
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

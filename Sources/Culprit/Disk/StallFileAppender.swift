import CCulpritLinux
import CulpritStallRecord
import Glibc

/// The `.stall` file of one stall, readable at every moment. Used only by the disk thread.
///
/// Samples that cannot be written are counted. Other records are retried before any later record.
struct StallFileAppender: ~Copyable {
  private var file: AppendOnlyFile
  private let directory: String
  private let process: ObservedProcess
  private let run: RunFile
  private let openFiles: OpenFiles
  private let fsyncs: FsyncScheduler
  private let problems: ProblemList
  private var stall: Stall
  private let tag: UInt16
  /// Offset of the state, which is overwritten repeatedly; `nil` until the beginning is written.
  private var statePlace: off_t?
  /// Records that must be written before any later record.
  private var pending: [[UInt8]] = []
  private var modules: [Module] = []
  /// Stacks already in the file, with their numbers.
  private var stacks: [Stack: Int] = [:]
  private var stackCount = 0
  /// Equal to ``SampleStore/limit``.
  private static let stacksMax = 2048
  /// The latest names of threads in the file.
  private var names: [Int32: String] = [:]
  private var saved: UInt64 = 0
  private var othersSaved = 0
  private var unsaved: UInt64 = 0
  private var othersUnsaved = 0
  private var areNamesWhole = true
  private var lastSync: UInt64 = 0
  private var place = FsyncScheduler.Place()
  private var nextCheck: UInt64 = 0

  private static let checkInterval: UInt64 = 1_000_000_000

  /// File names sort by time.
  init(_ box: BlackBoxWriter, process: ObservedProcess, stall: Stall) throws(AppendOnlyFileError) {
    // The name must sort after the run's name, but a launch begins before its watchdog, and begin marks are imprecise.
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

  var hasBeginning: Bool { statePlace != nil }

  var failure: String? { file.failure }

  /// Adds the present problems to the list, and removes those of `former` that have ended.
  func updateProblems(since former: [ProblemList.Kind: String]) {
    let present = file.problems
    for (kind, sentence) in present { problems.note(sentence, kind) }
    for kind in former.keys where present[kind] == nil { problems.end(kind) }
  }

  var presentProblems: [ProblemList.Kind: String] { file.problems }

  mutating func begin(_ modules: [Module]) {
    queue(modules)
    _ = settle()
  }

  mutating func add(_ sample: Sample, _ stack: Stack?, _ modules: [Module]) {
    queue(modules)
    var saved = sample
    saved.stack = stack.flatMap { save($0) }
    let isWhole = saved.stack != nil || stack == nil
    if append(StallFileWriter.record(of: saved, stallID: stall.id)), isWhole { self.saved += 1 } else { unsaved += 1 }
  }

  mutating func add(_ holder: HolderSample, _ stack: Stack?, _ modules: [Module]) {
    queue(modules)
    var saved = holder
    saved.sample.stack = stack.flatMap { save($0) }
    let isKnown = names.updateValue(holder.thread.name, forKey: holder.thread.id) == holder.thread.name
    let name = isKnown ? [] : StallFileWriter.record(of: holder.thread)
    _ = append(name + StallFileWriter.record(of: saved, stallID: stall.id))
  }

  mutating func add(other: ThreadSample, _ stack: Stack?, _ modules: [Module]) {
    queue(modules)
    var saved = other
    saved.stack = stack.flatMap { save($0) }
    let records =
      StallFileWriter.record(of: other.thread) + StallFileWriter.record(of: saved, stallID: stall.id)
    if append(records) { othersSaved += 1 } else { othersUnsaved += 1 }
  }

  /// `leftOut` is the number of threads that were not captured.
  mutating func endOthers(leftOut: Int) {
    pending.append(StallFileWriter.record(ofOthersLeftOut: leftOut + othersUnsaved, stallID: stall.id))
    _ = settle()
    syncIfDue()
  }

  mutating func add(_ note: StallNote) {
    pending.append(StallFileWriter.record(of: note, stallID: stall.id))
    _ = settle()
  }

  /// `refused` is the number of samples that the queue refused.
  mutating func goesOn(_ stall: Stall, refused: UInt64) {
    self.stall = stall
    self.stall.lostSamples += refused
    _ = settle()
    // Written even if pending records do not fit on the disk: the state takes no extra space.
    writeState()
    let now = clinux_clock_ns()
    if now >= nextCheck {
      nextCheck = now &+ Self.checkInterval
      returnIfGone()
    }
    syncIfDue()
  }

  mutating func end(_ stall: Stall, refused: UInt64) {
    self.stall = stall
    self.stall.lostSamples += refused
    returnIfGone()
    let isSettled = settle()
    // The state record contains the end, in case the disk is too full for an end record.
    writeState()
    if isSettled { put(StallFileWriter.record(ofEndOf: state)) }
  }

  mutating func add(names records: [UInt8]) { if !append(records) { areNamesWhole = false } }

  mutating func endNames() {
    if areNamesWhole, settle() { put(StallFileWriter.recordOfNamesLookedUp()) }
  }

  mutating func sync() {
    file.flush()
    if lastSync == 0 { DirectoryFiles.flush(directory) }
    lastSync = clinux_clock_ns()
    fsyncs.synced(&place, at: lastSync)
  }

  mutating func remove() { file.remove() }

  mutating func removeIfEmpty() { if file.bytes == 0 { file.remove() } }

  /// Includes the samples lost on the way to the disk.
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

  private mutating func queue(_ modules: [Module]) {
    guard !modules.isEmpty else { return }
    // Many stalls share one list.
    if self.modules.isEmpty { self.modules = modules } else { self.modules += modules }
    pending += modules.map { StallFileWriter.record(of: $0) }
  }

  /// Returns whether the beginning and all pending records are written.
  private mutating func settle() -> Bool {
    if statePlace == nil {
      // Written at once; otherwise readers could find samples of an unknown stall.
      let header = StallFileWriter.header()
      let head =
        StallFileWriter.record(of: process) + StallFileWriter.record(of: stall.thread)
        + StallFileWriter.record(ofBeginOf: stall)
      var records = head + StallFileWriter.record(ofStateOf: state)
      StallFileWriter.tag(&records, tag)
      guard file.append(header + records) else { return false }
      statePlace = off_t(header.count + head.count)
    }
    while let record = pending.first {
      guard put(record) else { return false }
      pending.removeFirst()
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

  /// Returns the number of `stack` in the file, `nil` if it could not be written.
  private mutating func save(_ stack: Stack) -> Int? {
    if let number = stacks[stack] { return number }
    guard append(StallFileWriter.record(of: stack, index: stackCount)) else { return nil }
    defer { stackCount += 1 }
    // Bounds the memory: a forgotten stack is written again.
    if stacks.count == Self.stacksMax { stacks = [:] }
    stacks[stack] = stackCount
    return stackCount
  }

  /// Creates the file again if it was unlinked. If the unlinked file is still open, its contents are copied; otherwise
  /// its samples are lost and counted.
  private mutating func returnIfGone() {
    let isGone = file.isGone
    if file.wasClosed {
      run.ensure()
      problems.note("\(directory): the service has closed files that are not its own; they have been opened again")
    }
    guard isGone, !run.isOutOfReach else { return }
    // Without the run file, which might be gone as well, the next launch does not report this stall.
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
    if isLost { restartFile() }
  }

  /// Queues all records for an empty file except samples and other threads, which are lost.
  private mutating func restartFile() {
    statePlace = nil
    pending =
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

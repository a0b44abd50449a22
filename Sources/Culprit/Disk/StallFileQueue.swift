import CCulpritLinux
import CulpritStallRecord
import CulpritSymbols
import Synchronization

/// The recorder's access to the file of a stall, through the disk thread's queue.
final class StallFileQueue: Sendable {
  private let box: BlackBoxWriter
  private var disk: DiskThread { box.disk }
  private let problems: ProblemList
  /// Locked only by the disk thread, which might hold the lock for a long time.
  private let file = Mutex<StallFileAppender?>(nil)
  /// The latest state, if it has not been written yet.
  private let pending = Mutex<Stall?>(nil)
  private let refused = Atomic<UInt64>(0)
  private let named = Mutex<Set<RuntimeAddress>>([])
  private let areNamesWhole = Atomic<Bool>(true)
  private let isReported = Atomic<Bool>(false)
  /// Number of calls of ``finish()`` until the file is closed.
  private let users = Atomic<Int>(1)
  /// Whether the queue refused the beginning. All later work is then skipped.
  private let isMissing = Atomic<Bool>(false)

  private static let nameBytes = 64 << 10

  /// `samples` and `holders` are the samples so far. Calls `isSaved` on the disk thread after writing the beginning.
  init(
    _ box: BlackBoxWriter,
    process: ObservedProcess,
    stall: Stall,
    modules: [Module],
    samples: [(Sample, Stack?)],
    holders: [(HolderSample, Stack?)] = [],
    isSaved: @escaping @Sendable () -> Void = {}
  ) {
    self.box = box
    problems = box.problems
    let bytes = 64 * modules.count + (samples.map(\.1) + holders.map(\.1)).reduce(0) { $0 + Self.bytes(of: $1) }
    let isTaken = disk.put(bytes: bytes) { [self] in
      box.run.ensure()
      file.withLock { file in
        do throws(AppendOnlyFileError) {
          file = try StallFileAppender(box, process: process, stall: stall)
          problems.end(.creating)
        } catch {
          problems.note(error.text, .creating)
        }
        file?.begin(modules)
        for (sample, stack) in samples { file?.add(sample, stack, []) }
        for (holder, stack) in holders { file?.add(holder, stack, []) }
        file?.goesOn(stall, refused: 0)
        guard let hasBeginning = file?.hasBeginning else { return }
        // The disk works again.
        if hasBeginning, file?.presentProblems.isEmpty == true { problems.end(.writing) }
        file?.updateProblems(since: [:])
        if hasBeginning { isSaved() }
      }
    }
    guard !isTaken else {
      problems.end(.queueing)
      return
    }
    isMissing.store(true, ordering: .relaxed)
    problems.note("the disk is too slow: a stall of \"\(stall.source.name)\" is not saved", .queueing)
  }

  func add(_ sample: Sample, _ stack: Stack?, _ modules: [Module]) {
    let isTaken = put(bytes: Self.bytes(of: stack)) { $0.add(sample, stack, modules) }
    if !isTaken { refused.add(1, ordering: .relaxed) }
  }

  /// A refused sample of a lock owner is not counted as lost: it does not show the stalled work.
  func add(_ holder: HolderSample, _ stack: Stack?, _ modules: [Module]) {
    put(bytes: Self.bytes(of: stack)) { $0.add(holder, stack, modules) }
  }

  func add(other: ThreadSample, _ stack: Stack?, _ modules: [Module]) -> Bool {
    put(bytes: Self.bytes(of: stack)) { $0.add(other: other, stack, modules) }
  }

  func endOthers(leftOut: Int) { put { $0.endOthers(leftOut: leftOut) } }

  func add(_ note: StallNote) { put(bytes: 256 + note.text.utf8.count) { $0.add(note) } }

  func goesOn(_ stall: Stall) {
    // The queued update will write the latest state.
    guard pending.exchange(stall) == nil else { return }
    put(isVital: true) { [self] file in
      if let stall = pending.exchange(nil) { file.goesOn(stall, refused: refused.load(ordering: .relaxed)) }
    }
  }

  func end(_ stall: Stall) {
    put(isVital: true) { [self] in $0.end(stall, refused: refused.load(ordering: .relaxed)) }
  }

  /// Adds the missing symbol names of the stacks of `recording`. Symbolizes on the calling thread.
  ///
  /// Omits names that need an unreadable file. Calls `pause` before each lookup, because lookups are slow.
  func addNames(of recording: Recording, _ symbolizer: Symbolizer, pause: () -> Void = { clinux_fork_yield() }) {
    var records: [UInt8] = []
    var waiting: Set<RuntimeAddress> = []
    func settle() {
      guard !records.isEmpty else { return }
      let bytes = records
      if put(bytes: bytes.count + 256, { $0.add(names: bytes) }) {
        named.withLock { $0.formUnion(waiting) }
      } else {
        areNamesWhole.store(false, ordering: .relaxed)
      }
      (records, waiting) = ([], [])
    }
    let known = named.withLock { $0 }
    for frame in recording.stacks.lazy.flatMap(\.frames) {
      let address = frame.lookupAddress
      guard !known.contains(address), waiting.insert(address).inserted else { continue }
      pause()
      records += StallFileWriter.record(ofLearnedNameOf: address, symbolizer.resolve(frame))
      if records.count >= Self.nameBytes { settle() }
    }
    settle()
    // Readers expect the note at the end of the file.
    if isReported.load(ordering: .relaxed) { put(isVital: true) { $0.add(StallNote(.reported)) } }
  }

  private func endNames() {
    guard areNamesWhole.load(ordering: .relaxed) else { return }
    put(isVital: true) { $0.endNames() }
  }

  /// Notes that the stall is reported, so the next launch does not report it again.
  func noteReported() {
    guard !isReported.exchange(true, ordering: .relaxed) else { return }
    put(isVital: true) { $0.add(StallNote(.reported)) }
  }

  /// Keeps the file open until one more call of ``finish()``.
  func hold() { users.add(1, ordering: .relaxed) }

  /// Completes and closes the file, unless ``hold()`` keeps it open.
  func finish() {
    guard users.subtract(1, ordering: .acquiringAndReleasing).newValue == 0 else { return }
    endNames()
    close(keepsFile: true)
  }

  func settle(until deadline: UInt64) { _ = disk.result(until: deadline) { true } }

  func sync() { put(isVital: true) { $0.sync() } }

  func close(keepsFile: Bool) {
    guard !isMissing.load(ordering: .relaxed) else { return }
    disk.put(isVital: true) { [self] in
      file.withLock { file in
        if keepsFile { file?.removeIfEmpty() } else { file?.remove() }
        file = nil
      }
    }
    box.enforceRetention()
  }

  /// Called on the disk thread.
  var isWhole: Bool { file.withLock { $0 != nil && $0?.failure == nil } }

  @discardableResult
  private func put(
    bytes: Int = 256,
    isVital: Bool = false,
    _ work: @escaping @Sendable (inout StallFileAppender) -> Void
  ) -> Bool {
    guard !isMissing.load(ordering: .relaxed) else { return false }
    return disk.put(bytes: bytes, isVital: isVital) { [self] in
      file.withLock { file in
        guard var present = file.take() else { return }
        let former = present.presentProblems
        work(&present)
        present.updateProblems(since: former)
        file = consume present
      }
    }
  }

  private static func bytes(of stack: Stack?) -> Int { 256 + 16 * (stack?.frames.count ?? 0) }
}

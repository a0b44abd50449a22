import CCulpritLinux
import CulpritStallRecord
import CulpritSymbols
import Synchronization

/// What the recorder has of the file of a stall: everything is put into the disk thread's queue.
///
/// A sample that finds no room there is counted as lost by the file; the recorder still has it.
final class StallFileQueue: Sendable {
  private let box: BlackBoxWriter
  private var disk: DiskThread { box.disk }
  private let problems: ProblemList
  /// The file, once it is there. Locked by the disk thread only, which may be held up for long meanwhile.
  private let file = Mutex<StallFileAppender?>(nil)
  /// How far the stall has come, when the file is yet to be told.
  private let pending = Mutex<Stall?>(nil)
  private let refused = Atomic<UInt64>(0)
  /// The addresses that the file has the names of, as they are looked up.
  private let named = Mutex<Set<RuntimeAddress>>([])
  private let areNamesWhole = Atomic<Bool>(true)
  /// Whether there was no room for the beginning: then there is nothing to do for the rest.
  private let isMissing = Atomic<Bool>(false)

  /// So many bytes of names are given to the disk at a time, about.
  private static let nameBytes = 64 << 10

  /// Has a file made for `stall` in the directory of `box`.
  ///
  /// - Parameters:
  ///   - box: Where it is.
  ///   - process: This process.
  ///   - stall: The stall, without samples.
  ///   - modules: The modules that are known.
  ///   - samples: The samples so far, with their stacks.
  ///   - holders: Those of threads that held what these waited for, with their stacks.
  ///   - isSaved: Called on the disk thread once the file tells of the stall.
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
        } catch {
          problems.note(error.text)
        }
        file?.begin(modules)
        for (sample, stack) in samples { file?.add(sample, stack, []) }
        for (holder, stack) in holders { file?.add(holder, stack, []) }
        file?.goesOn(stall, refused: 0)
        if file?.hasBeginning == true { isSaved() }
      }
    }
    guard !isTaken else { return }
    isMissing.store(true, ordering: .relaxed)
    problems.note("the disk does not keep up: a stall of \"\(stall.source.name)\" is not saved")
  }

  /// Adds a sample with its stack, and the modules that are new in it.
  func add(_ sample: Sample, _ stack: Stack?, _ modules: [Module]) {
    let isTaken = put(bytes: Self.bytes(of: stack)) { $0.add(sample, stack, modules) }
    if !isTaken { refused.add(1, ordering: .relaxed) }
  }

  /// Adds a sample of a thread that held something, with its stack, and the modules that are new in it. One that finds no room is
  /// not counted: it is none of the work's.
  func add(_ holder: HolderSample, _ stack: Stack?, _ modules: [Module]) {
    put(bytes: Self.bytes(of: stack)) { $0.add(holder, stack, modules) }
  }

  /// Adds another thread.
  func add(other: ThreadSample, _ stack: Stack?, _ modules: [Module]) -> Bool {
    put(bytes: Self.bytes(of: stack)) { $0.add(other: other, stack, modules) }
  }

  /// All other threads have been captured, but for so many.
  func endOthers(leftOut: Int) { put { $0.endOthers(leftOut: leftOut) } }

  /// Adds a note about the stall.
  func add(_ note: StallNote) { put(bytes: 256 + note.text.utf8.count) { $0.add(note) } }

  /// The stall has come as far as `stall` says.
  func goesOn(_ stall: Stall) {
    let isWaiting = pending.withLock { pending in
      defer { pending = stall }
      return pending != nil
    }
    // The file is told the latest.
    guard !isWaiting else { return }
    put(isVital: true) { [self] file in
      let stall = pending.withLock { pending in
        defer { pending = nil }
        return pending
      }
      if let stall { file.goesOn(stall, refused: refused.load(ordering: .relaxed)) }
    }
  }

  /// The stall has ended as `stall` says.
  func end(_ stall: Stall) {
    put(isVital: true) { [self] in $0.end(stall, refused: refused.load(ordering: .relaxed)) }
  }

  /// Adds the names of what the stacks of `recording` have, as far as the file does not have them. Works on the calling
  /// thread.
  ///
  /// What needs a file that cannot be read is left out: it may be there when the file is looked at. Calls `pause` before
  /// each name, which takes long.
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
  }

  /// Every name is there that can be. Nothing is added after that.
  func endNames() {
    guard areNamesWhole.load(ordering: .relaxed) else { return }
    put(isVital: true) { $0.endNames() }
  }

  /// Waits until the disk has what was put in before, until `deadline` at most.
  func settle(until deadline: UInt64) { _ = disk.result(until: deadline) { true } }

  /// Brings the file to the disk.
  func sync() { put(isVital: true) { $0.sync() } }

  /// The file is complete. Does nothing the second time.
  func close(keepsFile: Bool) {
    guard !isMissing.load(ordering: .relaxed) else { return }
    disk.put(isVital: true) { [self] in
      file.withLock { file in
        if let failure = file?.failure { problems.note(failure) }
        if keepsFile { file?.removeIfEmpty() } else { file?.remove() }
        file = nil
      }
    }
    box.enforceRetention()
  }

  /// Whether everything so far could be written; on the disk thread.
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
        work(&present)
        if let failure = present.failure { problems.note(failure) }
        file = consume present
      }
    }
  }

  /// How much memory a sample with `stack` takes while it waits, about.
  private static func bytes(of stack: Stack?) -> Int { 256 + 16 * (stack?.frames.count ?? 0) }
}

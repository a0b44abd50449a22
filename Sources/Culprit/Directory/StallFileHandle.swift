import StallRecord
import Synchronization

/// What the recorder has of the file of a stall: everything is put into the disk thread's queue.
///
/// A sample that finds no room there is counted as lost by the file; the recorder still has it.
final class StallFileHandle: Sendable {
  private let disk: DiskThread
  private let problems: ProblemList
  /// The file, once it is there. Locked by the disk thread only, which may be held up for long meanwhile.
  private let file = Mutex<GrowingStallFile?>(nil)
  /// How far the stall has come, when the file is yet to be told.
  private let progress = Mutex<Stall?>(nil)
  private let refused = Atomic<UInt64>(0)
  /// Whether there was no room for the beginning: then there is nothing to do for the rest.
  private let isMissing = Atomic<Bool>(false)

  /// Has a file made for `stall` in the directory of `box`.
  ///
  /// - Parameters:
  ///   - box: Where it is.
  ///   - process: This process.
  ///   - stall: The stall, without samples.
  ///   - modules: The modules that are known.
  ///   - samples: The samples so far, with their stacks.
  init(_ box: BlackBoxWriter, process: ObservedProcess, stall: Stall, modules: [Module], samples: [(Sample, Stack?)]) {
    disk = box.disk
    problems = box.problems
    let bytes = 64 * modules.count + samples.reduce(0) { $0 + Self.bytes(of: $1.1) }
    let isTaken = disk.put(bytes: bytes) { [self] in
      box.run.ensure()
      file.withLock { file in
        do throws(StallFileSinkError) {
          file = try GrowingStallFile(box, process: process, stall: stall)
        } catch {
          problems.note(error.text)
        }
        file?.begin(modules)
        for (sample, stack) in samples { file?.add(sample, stack, []) }
        file?.goesOn(stall, refused: 0)
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
    let isWaiting = progress.withLock { progress in
      defer { progress = stall }
      return progress != nil
    }
    // The file is told the latest.
    guard !isWaiting else { return }
    put(isVital: true) { [self] file in
      let stall = progress.withLock { progress in
        defer { progress = nil }
        return progress
      }
      if let stall { file.goesOn(stall, refused: refused.load(ordering: .relaxed)) }
    }
  }

  /// The stall has ended as `stall` says.
  func end(_ stall: Stall) {
    put(isVital: true) { [self] in $0.end(stall, refused: refused.load(ordering: .relaxed)) }
  }

  /// Brings the file to the disk.
  func sync() { put(isVital: true) { $0.sync() } }

  /// The file is complete.
  func close(keepsFile: Bool) {
    guard !isMissing.load(ordering: .relaxed) else { return }
    disk.put(isVital: true) { [self] in
      file.withLock { file in
        if let failure = file?.failure { problems.note(failure) }
        if keepsFile { file?.removeIfEmpty() } else { file?.remove() }
        file = nil
      }
    }
  }

  /// Whether everything so far could be written; on the disk thread.
  var isWhole: Bool { file.withLock { $0 != nil && $0?.failure == nil } }

  @discardableResult
  private func put(
    bytes: Int = 256,
    isVital: Bool = false,
    _ work: @escaping @Sendable (inout GrowingStallFile) -> Void
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

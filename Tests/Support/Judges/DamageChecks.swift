import CulpritBlackBox
import CulpritBlame
import CulpritReports
import CulpritStallRecord
import CulpritSymbols

/// The judgement of reading a damaged file.
package enum DamageOutcome {
  /// The content of the whole file, or less.
  case right
  /// An error with a message.
  case refused
  /// Content that the whole file does not have.
  case wrong(String)
}

/// Compares damaged copies of a file with the whole file.
package protocol DamageCheck {
  var whole: [UInt8] { get }
  /// Returns the judgement of reading `bytes`, a copy of the file that was cut or changed.
  func judge(_ bytes: [UInt8], isCut: Bool) -> DamageOutcome
}

/// Checks of a `.stall` file.
package struct StallDamage: DamageCheck {
  package let whole: [UInt8]
  private let recording: Recording
  private let names: [RuntimeAddress: [ResolvedFrame]]
  /// Functions on about half of the stacks: the culprit, its callers, and its main callees.
  private let suspects: Set<String>
  private let functions: Set<String>
  private let threads: [Int32: String]

  package init?(_ bytes: [UInt8]) {
    guard let file = try? StallFile(bytes: bytes), let stall = file.recording.stalls.first else {
      return nil
    }
    whole = bytes
    recording = file.recording
    let symbolizer = Symbolizer(modules: recording.modules)
    var names: [RuntimeAddress: [ResolvedFrame]] = [:]
    for frame in recording.stacks.flatMap(\.frames) { names[frame.lookupAddress] = symbolizer.resolve(frame) }
    self.names = names
    suspects = Self.holders(of: stall, recording.stacks, names)
    // The caller determines the name of a merged function.
    let called = recording.stacks.flatMap { stack in
      stack.frames.flatMap { names[$0.lookupAddress] ?? [] }.namingMergedFunctions()
    }
    functions = Set((names.values.joined() + called).map(\.displayName))
    let others = stall.others?.threads.map(\.thread) ?? []
    threads = Dictionary((others + [stall.thread]).map { ($0.id, $0.name) }) { first, _ in first }
  }

  /// Functions on at least 40 % of the stacks. Time is no measure: parts of it can lack samples.
  private static func holders(
    of stall: Stall,
    _ stacks: [Stack],
    _ names: [RuntimeAddress: [ResolvedFrame]]
  ) -> Set<String> {
    let seen = stall.samples.compactMap(\.stack)
    var counts: [String: Int] = [:]
    for stack in seen {
      let frames = stacks[stack].frames.flatMap { names[$0.lookupAddress] ?? [] }.namingMergedFunctions()
      for name in Set(frames.map(\.displayName)) { counts[name, default: 0] += 1 }
    }
    return Set(counts.filter { $0.value * 5 >= seen.count * 2 }.keys)
  }

  package func judge(_ bytes: [UInt8], isCut: Bool) -> DamageOutcome {
    let file: StallFile
    do throws(StallFileError) { file = try StallFile(bytes: bytes) } catch {
      return error.description.isEmpty ? .wrong("refused without a sentence") : .refused
    }
    let read = file.recording
    guard file.problems.allSatisfy({ !$0.text.isEmpty }) else { return .wrong("a problem without a sentence") }
    // A change in place must be noticed; whole records can be missing or duplicated.
    if !isCut, bytes.count == whole.count, file.problems.isEmpty, bytes != whole, !isSame(read) {
      return .wrong("nothing was noticed")
    }
    // Nothing is reported then. The rest can be from another file whose end was appended to less than one record.
    if read.process == nil, read.stalls.isEmpty { return .right }
    if let process = read.process, process != recording.process { return .wrong("process \(process)") }
    for module in read.modules where !recording.modules.contains(module) { return .wrong("module \(module.path)") }
    for stack in read.stacks where !recording.stacks.contains(stack) { return .wrong("a stack") }
    for stall in read.stalls { if let wrong = wrong(stall, read) { return .wrong(wrong) } }
    return .right
  }

  /// Returns whether `read` has the content of the whole file; duplicates do not matter.
  private func isSame(_ read: Recording) -> Bool {
    read.stalls.map(\.duration) == recording.stalls.map(\.duration) && Set(read.stacks) == Set(recording.stacks)
      && read.stalls.map(\.samples.count) == recording.stalls.map(\.samples.count)
  }

  /// Returns the fault of the stall in `read`; `nil` if there is none.
  private func wrong(_ stall: Stall, _ read: Recording) -> String? {
    guard let original = recording.stalls.first else { return "a stall" }
    if stall.id != original.id || stall.source != original.source || stall.began != original.began
      || stall.threshold != original.threshold || stall.thread.id != original.thread.id
    {
      return "stall \(stall.id) of \(stall.source.name)"
    }
    if stall.hasEnded, !original.hasEnded { return "it has ended" }
    if stall.duration > original.duration { return "a duration of \(stall.duration)" }
    for thread in [stall.thread] + (stall.others?.threads.map(\.thread) ?? []) where !thread.name.isEmpty {
      if threads[thread.id] != thread.name { return "thread \(thread.id) \(thread.name)" }
    }
    let resolve = resolver(read)
    let blame = Blame(stall: stall, stacks: read.stacks, resolve: resolve)
    if let culprit = blame.culprit?.frame.function, !suspects.contains(culprit) {
      return "culprit \(culprit), none of \(suspects.sorted().joined(separator: ", "))"
    }
    let report = ReportBuilder(read, resolve: resolve).report(of: stall, blame: blame)
    if report.text(width: 100).isEmpty { return "an empty report" }
    for frame in blame.tree.flatMap(Self.frames) where frame.missing == nil && !functions.contains(frame.displayName) {
      return "function \(frame.displayName)"
    }
    return nil
  }

  private static func frames(_ node: CallNode) -> [ResolvedFrame] { [node.frame] + node.children.flatMap(frames) }

  /// Returns a function that names frames by the modules in `read`. Unchanged modules use the names found before.
  private func resolver(_ read: Recording) -> (StackFrame) -> [ResolvedFrame] {
    if read.modules == recording.modules { return { names[$0.lookupAddress] ?? [] } }
    let symbolizer = Symbolizer(modules: read.modules)
    return { frame in
      let address = frame.lookupAddress
      let present = read.modules.first { $0.contains(address) }
      if let present, present == recording.modules.first(where: { $0.contains(address) }) {
        return names[address] ?? []
      }
      return symbolizer.resolve(frame)
    }
  }
}

/// Checks of a `.run` or `.told` file.
package struct RunDamage: DamageCheck {
  package let whole: [UInt8]
  private let record: RunRecord

  package init?(_ bytes: [UInt8]) {
    guard let record = RunRecord(text: String(decoding: bytes, as: UTF8.self)) else { return nil }
    whole = bytes
    self.record = record
  }

  package func judge(_ bytes: [UInt8], isCut: Bool) -> DamageOutcome {
    guard let read = RunRecord(text: String(decoding: bytes, as: UTF8.self)) else { return .refused }
    if read.identity != record.identity || read.since != record.since { return .wrong("run \(read.identity)") }
    if !read.executable.isEmpty, read.executable != record.executable { return .wrong("executable \(read.executable)") }
    if read.crash != nil, read.crash != record.crash { return .wrong("signal \(read.crash?.signal ?? 0)") }
    if read.ended != nil, read.ended != record.ended { return .wrong("an end") }
    if read.told != nil, read.told != record.told { return .wrong("told \(read.told ?? "")") }
    if !Set(read.memoryKills).isSubset(of: record.memoryKills) { return .wrong("counts of kills") }
    return .right
  }
}

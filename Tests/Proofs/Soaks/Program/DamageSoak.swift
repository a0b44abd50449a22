import CulpritBlackBox
import CulpritBlame
import CulpritReports
import CulpritStallRecord
import CulpritSymbols
import Glibc

/// Cuts and corrupts files that services left, and reads what is left of them: nothing may crash, and what is said must
/// be what the whole files say, or less.
struct DamageSoak {
  /// How many random corruptions are tried, over all files.
  var corruptions: Int
  /// Every file is cut at each of so many of its last bytes.
  var cuts: Int
  /// What happens at random follows from it.
  var seed: UInt64

  /// What became of the files.
  private struct Counts {
    var cuts = 0
    var corruptions = 0
    var refused = 0
    var wrong = 0
  }

  /// Runs the soak test on `files` and prints what came of it in `figures`.
  func run(_ files: [KeptFiles.File], _ figures: Figures) {
    var counts = Counts()
    var random = SeededGenerator(state: seed)
    let checks = files.compactMap { file -> (any DamageCheck)? in
      if file.name.hasSuffix(".stall") { return StallDamage(file.bytes) }
      return RunDamage(file.bytes)
    }
    if checks.count < files.count { figures.note("\(files.count - checks.count) files cannot be read whole") }
    for check in checks {
      for length in max(0, check.whole.count - cuts)..<check.whole.count {
        counts.cuts += 1
        tell(check.judge(Array(check.whole[..<length]), isCut: true), "cut after \(length) bytes", &counts, figures)
      }
    }
    for number in 0..<(checks.isEmpty ? 0 : corruptions) {
      let check = checks[number % checks.count]
      counts.corruptions += 1
      var bytes = check.whole
      let what = Damage.random(
        &bytes,
        other: files[Int.random(in: files.indices, using: &random)].bytes,
        using: &random
      )
      tell(check.judge(bytes, isCut: false), what, &counts, figures)
    }
    figures.print("blackbox.damaged", Double(files.count), "files")
    figures.print("blackbox.cuts", Double(counts.cuts), "files")
    figures.print("blackbox.corruptions", Double(counts.corruptions), "files")
    figures.print("blackbox.refused", Double(counts.refused), "files")
    figures.print("blackbox.unread", Double(files.count - checks.count), "files", in: 0...0)
    figures.print("blackbox.wrong", Double(counts.wrong), "files", in: 0...0)
  }

  private func tell(_ outcome: DamageOutcome, _ damage: String, _ counts: inout Counts, _ figures: Figures) {
    switch outcome {
    case .right: break
    case .refused: counts.refused += 1
    case .wrong(let what):
      counts.wrong += 1
      if counts.wrong <= 20 { figures.note("\(damage): \(what)") }
    }
  }
}

/// Files that services have left.
final class KeptFiles {
  struct File {
    var name: String
    var bytes: [UInt8]
  }

  private(set) var all: [File] = []

  /// Takes what is in `directory` now.
  func add(_ directory: String) {
    let names = (try? BlackBoxDirectory(path: directory).names([".run", ".told", ".stall"])) ?? []
    for name in names {
      let descriptor = open("\(directory)/\(name)", O_RDONLY | O_CLOEXEC)
      guard descriptor >= 0 else { continue }
      defer { close(descriptor) }
      var bytes: [UInt8] = []
      var chunk = [UInt8](repeating: 0, count: 64 << 10)
      while true {
        let count = read(descriptor, &chunk, chunk.count)
        guard count > 0 else { break }
        bytes += chunk[..<count]
      }
      // One that could not be written, because the disk was full, has nothing to damage.
      if !bytes.isEmpty { all.append(File(name: name, bytes: bytes)) }
    }
  }
}

/// What a reader made of a damaged file.
private enum DamageOutcome {
  /// What the whole file says, or less.
  case right
  /// Nothing, and a sentence.
  case refused
  /// Something that is not so.
  case wrong(String)
}

/// Knows what a whole file says.
private protocol DamageCheck {
  var whole: [UInt8] { get }
  /// What a reader makes of `bytes`, to which the file was cut or changed.
  func judge(_ bytes: [UInt8], isCut: Bool) -> DamageOutcome
}

/// A `.stall` file: what may be said of its stall, and who may be blamed.
private struct StallDamage: DamageCheck {
  let whole: [UInt8]
  private let recording: Recording
  private let names: [RuntimeAddress: [ResolvedFrame]]
  /// Who holds about half of the stall: of these one is to blame, and the others called them, or were called by them.
  private let suspects: Set<String>
  private let functions: Set<String>
  private let threads: [Int32: String]

  init?(_ bytes: [UInt8]) {
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
    // Of functions that the compiler has merged, who called them tells which one it was.
    let called = recording.stacks.flatMap { stack in
      stack.frames.flatMap { names[$0.lookupAddress] ?? [] }.namingMergedFunctions()
    }
    functions = Set((names.values.joined() + called).map(\.displayName))
    let others = stall.others?.threads.map(\.thread) ?? []
    threads = Dictionary((others + [stall.thread]).map { ($0.id, $0.name) }) { first, _ in first }
  }

  /// Whoever is on nearly half of the stacks, or more. Not of the time: of some of it there may be no samples.
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

  func judge(_ bytes: [UInt8], isCut: Bool) -> DamageOutcome {
    let file: StallFile
    do throws(StallFileError) { file = try StallFile(bytes: bytes) } catch {
      return error.description.isEmpty ? .wrong("refused without a sentence") : .refused
    }
    let read = file.recording
    guard file.problems.allSatisfy({ !$0.text.isEmpty }) else { return .wrong("a problem without a sentence") }
    // In place nothing may change unnoticed; whole records may be missing, or be there twice.
    if !isCut, bytes.count == whole.count, file.problems.isEmpty, bytes != whole, !isSame(read) {
      return .wrong("nothing was noticed")
    }
    // Nothing is told then. What is there may be of another file whose end has come behind less than a record of this
    // one.
    if read.process == nil, read.stalls.isEmpty { return .right }
    if let process = read.process, process != recording.process { return .wrong("process \(process)") }
    for module in read.modules where !recording.modules.contains(module) { return .wrong("module \(module.path)") }
    for stack in read.stacks where !recording.stacks.contains(stack) { return .wrong("a stack") }
    for stall in read.stalls { if let wrong = wrong(stall, read) { return .wrong(wrong) } }
    return .right
  }

  /// Whether `read` says what the whole file says: what is there twice says nothing new.
  private func isSame(_ read: Recording) -> Bool {
    read.stalls.map(\.duration) == recording.stalls.map(\.duration) && Set(read.stacks) == Set(recording.stacks)
      && read.stalls.map(\.samples.count) == recording.stalls.map(\.samples.count)
  }

  /// What is wrong with what is read of the stall, and told.
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

  /// Names frames by the modules that were read. Those that are as they were have the names that were found before.
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

/// A `.run` or `.told` file: who it was, and how it ended.
private struct RunDamage: DamageCheck {
  let whole: [UInt8]
  private let record: RunRecord

  init?(_ bytes: [UInt8]) {
    guard let record = RunRecord(text: String(decoding: bytes, as: UTF8.self)) else { return nil }
    whole = bytes
    self.record = record
  }

  func judge(_ bytes: [UInt8], isCut: Bool) -> DamageOutcome {
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

/// Ways in which files are damaged.
private enum Damage {
  /// Changes `bytes` at random; a part of `other` may get into it. Returns what was done.
  static func random(_ bytes: inout [UInt8], other: [UInt8], using random: inout SeededGenerator) -> String {
    let place = Int.random(in: 0..<bytes.count, using: &random)
    // Mostly small: what is small is hard to notice.
    let longest = min(bytes.count - place, 1 << Int.random(in: 0...13, using: &random))
    let length = Int.random(in: 1...max(1, longest), using: &random)
    let range = place..<place + length
    switch Int.random(in: 0..<9, using: &random) {
    case 0:
      bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
      return "a bit at \(place)"
    case 1:
      for index in range { bytes[index] = UInt8.random(in: 0...255, using: &random) }
      return "noise in \(range)"
    case 2:
      for index in range { bytes[index] = 0 }
      return "zeros in \(range)"
    case 3:
      bytes.removeSubrange(range)
      return "without \(range)"
    case 4:
      bytes.insert(contentsOf: Array(bytes[range]), at: place)
      return "\(range) twice"
    case 5:
      let from = Int.random(in: 0...bytes.count - length, using: &random)
      bytes.replaceSubrange(range, with: Array(bytes[from..<from + length]))
      return "\(from)+\(length) in \(range)"
    case 6:
      let noise = (0..<length).map { _ in UInt8.random(in: 0...255, using: &random) }
      bytes.insert(contentsOf: noise, at: place)
      return "noise before \(range)"
    case 7:
      bytes.removeSubrange(place...)
      bytes += other.suffix(length)
      // Files of runs begin alike: what has come of it may be the other one, whole.
      if bytes == other { bytes.removeLast() }
      return "cut after \(place), with \(min(length, other.count)) bytes of another file"
    default:
      for _ in 0..<8 {
        bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
      }
      return "eight bytes"
    }
  }
}

/// Random numbers that follow from a seed.
struct SeededGenerator: RandomNumberGenerator {
  /// Where it is.
  var state: UInt64

  mutating func next() -> UInt64 {
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    let mixed = (state ^ state >> 33) &* 0xff51_afd7_ed55_8ccd
    return mixed ^ mixed >> 33
  }
}

package enum StallFileError: Error, Hashable, Sendable, CustomStringConvertible {
  case empty
  case cutInHeader(bytes: Int)
  case notAStallFile(begins: [UInt8])
  case damagedHeader(expected: UInt32, found: UInt32)
  /// The file has another major version of the format.
  case otherVersion(major: UInt16, minor: UInt16)
  case tooLarge(bytes: Int)

  package var description: String {
    switch self {
    case .empty: "is empty; a .stall file has at least \(StallFileFormat.headerBytes) bytes"
    case .cutInHeader(let bytes):
      "ends after \(bytes) bytes, inside the header of \(StallFileFormat.headerBytes) bytes"
    case .notAStallFile(let begins):
      "is not a .stall file: it begins with \(hexadecimal(begins)), not \(hexadecimal(StallFileFormat.magic))"
    case .damagedHeader(let expected, let found):
      "has a damaged header: its checksum is \(hexadecimal(found)), its content gives \(hexadecimal(expected))"
    case .otherVersion(let major, let minor):
      "has format version \(major).\(minor); this culprit reads versions \(StallFileFormat.majorVersion).x"
    case .tooLarge(let bytes): "has more than \(bytes) bytes beside samples, which no .stall file has"
    }
  }
}

/// A problem with a part of a file.
package struct StallFileProblem: Hashable, Sendable, CustomStringConvertible {
  /// The file offset of the part, in bytes.
  package var offset: Int
  package var text: String

  package var description: String { "at byte \(offset): \(text)" }
}

/// The readable content of a `.stall` file.
package struct StallFile: Sendable {
  package var recording: Recording
  package var version: (major: UInt16, minor: UInt16)
  package var recordCount = 0
  package var tag: UInt16 = 0
  package var problems: [StallFileProblem]

  /// All samples of each stall, if requested.
  package private(set) var logs: [SampleLog] = []

  /// The data to keep from a file.
  package struct Extent: Sendable {
    package var samples: Int
    package var logsSamples: Bool
    package var store: (any OverflowStore)?

    package init(samples: Int = .max, logsSamples: Bool = false, store: (any OverflowStore)? = nil) {
      (self.samples, self.logsSamples, self.store) = (samples, logsSamples, store)
    }
  }

  package static let beginning = StallFileFormat.magic

  /// Maximum number of bytes other than samples. The reader keeps all of them in memory.
  private static let keptBytesMax = 256 << 20

  /// Reads a file. Keeps at least `samples` samples of each stall, and fewer than twice as many, evenly selected.
  ///
  /// Damage affects only damaged records. A truncated file loses its last record. After a corrupt record, reading
  /// continues at the next valid record.
  /// - Throws: ``StallFileError`` if the file has no header that this version can read.
  package init(bytes: [UInt8], samples: Int = .max) throws(StallFileError) {
    try self.init(RecordScanner(bytes: bytes), Extent(samples: samples))
  }

  /// Reads a file in pieces of any size, of which the last one is empty. Keeps only the data of `extent`.
  /// - Throws: ``StallFileError`` if the file has no header that this version can read.
  package init(_ extent: Extent, _ piece: @escaping () -> [UInt8]) throws(StallFileError) {
    try self.init(RecordScanner(piece), extent)
  }

  private init(_ content: RecordScanner, _ extent: Extent) throws(StallFileError) {
    var scanner = content
    version = try Self.checkedVersion(Array(scanner.header()))
    var builder = RecordingBuilder(extent)
    var keptBytes = 0
    while let record = scanner.next() {
      builder.damageSoFar = scanner.problems.count
      if !builder.add(kind: record.kind, payload: record.payload) {
        scanner.problems.append(
          StallFileProblem(
            offset: record.offset,
            text: "a record of kind \(record.kind) with \(record.payload.count) bytes does not hold what it should"
          )
        )
      }
      if recordCount == 0 { tag = record.tag }
      recordCount += 1
      guard record.kind != StallFileFormat.RecordKind.sample.rawValue else { continue }
      keptBytes += record.payload.count
      guard keptBytes <= Self.keptBytesMax else { throw .tooLarge(bytes: Self.keptBytesMax) }
    }
    recording = builder.finished()
    logs = builder.logs
    problems = scanner.problems + builder.problems
    for index in recording.stalls.indices {
      // Damage after a stall's end cannot affect its samples.
      let damage = builder.damageAtEnd[index] ?? scanner.problems.count
      recording.stalls[index].isDamaged = damage > 0 || !builder.problems.isEmpty
    }
  }

  /// Whether `part` of a file with one stall contains the end of the stall. The part can start anywhere in the file.
  package static func hasEnd(_ part: [UInt8]) -> Bool {
    var scanner = RecordScanner(bytes: part)
    while let record = scanner.next() {
      switch StallFileFormat.RecordKind(rawValue: record.kind) {
      case .stallEnded: return true
      case .stallGoesOn:
        let place = record.payload.startIndex + 32
        if place < record.payload.endIndex, record.payload[place] != 0 { return true }
      default: break
      }
    }
    return false
  }

  /// Whether `part` of a file with one stall contains a note of `kind`. The part can start anywhere in the file.
  package static func hasNote(_ kind: StallNote.Kind, in part: [UInt8]) -> Bool {
    var scanner = RecordScanner(bytes: part)
    while let record = scanner.next() {
      // The kind is the first byte after the stall's ID.
      let place = record.payload.startIndex + 8
      if record.kind == StallFileFormat.RecordKind.note.rawValue, place < record.payload.endIndex,
        StallNote.Kind(code: record.payload[place]) == kind
      {
        return true
      }
    }
    return false
  }

  private static func checkedVersion(_ bytes: [UInt8]) throws(StallFileError) -> (major: UInt16, minor: UInt16) {
    guard !bytes.isEmpty else { throw .empty }
    let magic = StallFileFormat.magic
    guard bytes.starts(with: magic.prefix(bytes.count)) else {
      throw .notAStallFile(begins: Array(bytes.prefix(magic.count)))
    }
    var reader = ByteReader(bytes.dropFirst(magic.count))
    guard let major: UInt16 = try? reader.number(), let minor: UInt16 = try? reader.number(),
      let found: UInt32 = try? reader.number()
    else { throw .cutInHeader(bytes: bytes.count) }
    let expected = CRC32.checksum(bytes[..<(StallFileFormat.headerBytes - 4)])
    guard found == expected else { throw .damagedHeader(expected: expected, found: found) }
    guard major == StallFileFormat.majorVersion else { throw .otherVersion(major: major, minor: minor) }
    return (major, minor)
  }
}

private struct RecordingBuilder {
  var problems: [StallFileProblem] = []
  var damageSoFar = 0
  private(set) var damageAtEnd: [Int: Int] = [:]
  private var recording = Recording(process: nil)
  private var threads: [Int32: String] = [:]
  private var stackPlaces: [UInt32: Int] = [:]
  private var stallPlaces: [UInt64: Int] = [:]
  private var samplesWithoutStall = 0
  private var selections: [SampleSelection] = []
  private var lastSeen: [Duration] = []
  private(set) var logs: [SampleLog] = []
  private let extent: StallFile.Extent

  init(_ extent: StallFile.Extent) { self.extent = extent }

  /// Adds a record. Returns `false` if the payload is too short for the kind. Ignores unknown kinds and additional
  /// bytes, which come from later minor versions.
  mutating func add(kind: UInt16, payload: ArraySlice<UInt8>) -> Bool {
    guard let kind = StallFileFormat.RecordKind(rawValue: kind) else { return true }
    var reader = ByteReader(payload)
    do {
      switch kind {
      case .process: try addProcess(&reader)
      case .module: recording.modules.append(try module(&reader))
      case .thread:
        let id = try reader.signed()
        threads[id] = try reader.text()
      case .stack: try addStack(&reader)
      case .stallBegan: try addBegin(&reader)
      case .sample: try addSample(&reader)
      case .holder: try addHolder(&reader)
      case .stallEnded: try addEnd(&reader)
      case .stallGoesOn: try addState(&reader)
      case .otherThread: try addOther(&reader)
      case .othersCaptured: try addOthersEnd(&reader)
      case .name:
        let (address, frames) = try NameRecord.read(&reader)
        recording.names[address] = frames
      case .note: try addNote(&reader)
      // Only programs that add names to a file use this record.
      case .namesLookedUp: break
      }
      return true
    } catch { return false }
  }

  mutating func finished() -> Recording {
    if samplesWithoutStall > 0 {
      problems.append(
        StallFileProblem(offset: 0, text: "\(samplesWithoutStall) samples belong to stalls whose beginning is lost")
      )
    }
    for index in recording.stalls.indices {
      selections[index].finish(&recording.stalls[index].samples)
      recording.stalls[index].leftOutSamples = selections[index].total - recording.stalls[index].samples.count
    }
    for index in recording.stalls.indices where !recording.stalls[index].hasEnded {
      let known = max(recording.stalls[index].duration, recording.stalls[index].threshold)
      recording.stalls[index].duration = max(lastSeen[index], known)
    }
    return recording
  }

  private mutating func addProcess(_ reader: inout ByteReader) throws {
    recording.process = ObservedProcess(
      id: try reader.signed(),
      executable: try reader.text(),
      architecture: try reader.text(),
      observerVersion: try reader.text(),
      watchedSince: WallTime(nanosecondsSince1970: try reader.number()),
      ownModules: try reader.texts(),
      wrappers: try reader.texts(),
      host: try reader.text()
    )
  }

  private func module(_ reader: inout ByteReader) throws -> Module {
    var module = Module(path: try reader.text(), buildID: try reader.data(), mappings: [])
    for _ in 0..<(try reader.number(UInt16.self)) {
      module.mappings.append(
        Module.Mapping(
          start: RuntimeAddress(try reader.number()),
          end: RuntimeAddress(try reader.number()),
          fileOffset: try reader.number()
        )
      )
    }
    let bias: UInt64 = try reader.number()
    module.bias = bias == .max ? nil : bias
    return module
  }

  private mutating func addStack(_ reader: inout ByteReader) throws {
    let id: UInt32 = try reader.number()
    let end = StackEnd(rawValue: try reader.number()) ?? .failed
    let count = Int(try reader.number(UInt16.self))
    try reader.require(count * 9)
    var stack = Stack(frames: [], end: end)
    stack.frames.reserveCapacity(count)
    for _ in 0..<count {
      let kind = FrameKind(rawValue: try reader.number()) ?? .programCounter
      stack.frames.append(StackFrame(RuntimeAddress(try reader.number()), kind))
    }
    let joined = Int(try reader.number(UInt16.self))
    let place = Int(try reader.number(UInt16.self))
    let omitted = Int(try reader.number(UInt32.self))
    if joined < count { stack.joinedFrom = joined }
    if place <= count, omitted > 0 { stack.omission = Stack.Omission(index: place, count: omitted) }
    for index in stack.frames.indices {
      let start: UInt64 = try reader.number()
      if start != 0 { stack.frames[index].functionStart = RuntimeAddress(start) }
    }
    stackPlaces[id] = recording.stacks.count
    recording.stacks.append(stack)
  }

  private mutating func addBegin(_ reader: inout ByteReader) throws {
    let id: UInt64 = try reader.number()
    let stall = Stall(
      id: id,
      source: WatchedSource(kind: SourceKind(code: try reader.number()), name: try reader.text()),
      thread: thread(try reader.signed()),
      threshold: try reader.duration(),
      began: WallTime(nanosecondsSince1970: try reader.number())
    )
    stallPlaces[id] = recording.stalls.count
    selections.append(SampleSelection(atLeast: extent.samples))
    lastSeen.append(.zero)
    if extent.logsSamples { logs.append(SampleLog(store: extent.store)) }
    recording.stalls.append(stall)
  }

  private func thread(_ id: Int32) -> ObservedThread { ObservedThread(id: id, name: threads[id] ?? "") }

  private mutating func addSample(_ reader: inout ByteReader) throws {
    let place = stallPlaces[try reader.number()]
    let sample = try sample(&reader)
    guard let place else {
      samplesWithoutStall += 1
      return
    }
    recording.stalls[place].cost.add(sample)
    lastSeen[place] = max(lastSeen[place], sample.age)
    if extent.logsSamples { logs[place].append(sample) }
    selections[place].add(sample, to: &recording.stalls[place].samples)
  }

  private mutating func addHolder(_ reader: inout ByteReader) throws {
    let place = stallPlaces[try reader.number()]
    let address: UInt64 = try reader.number()
    let flags: UInt8 = try reader.number()
    var sample = try sample(&reader)
    guard let place else { return }
    let thread = thread(sample.threadID ?? 0)
    sample.threadID = nil
    recording.stalls[place].cost.add(sample)
    recording.stalls[place].holders.append(
      HolderSample(address: address, thread: thread, isHeld: flags & 1 != 0, sample: sample)
    )
  }

  private func sample(_ reader: inout ByteReader) throws -> Sample {
    var sample = Sample(
      age: try reader.duration(),
      stack: stackPlaces[try reader.number()],
      outcome: CaptureOutcome(rawValue: try reader.number()) ?? .noAnswer,
      cpuTime: try reader.knownDuration()
    )
    sample.handlerTime = try reader.duration()
    sample.unwindTime = try reader.duration()
    sample.activity = try reader.activity()
    sample.progress = try reader.number()
    sample.label = try reader.text()
    sample.runDelay = try reader.knownDuration()
    let threadID = try reader.signed()
    sample.threadID = threadID == 0 ? nil : threadID
    sample.obstacle = Sample.Obstacle(rawValue: try reader.number())
    sample.waitingCount = try reader.number()
    sample.descriptor = try reader.descriptor()
    sample.lock = try reader.lock()
    sample.evidence = try reader.evidence()
    return sample
  }

  private mutating func addNote(_ reader: inout ByteReader) throws {
    let place = stallPlaces[try reader.number()]
    let (kind, time) = (StallNote.Kind(code: try reader.number()), try reader.duration())
    let note = StallNote(kind, title: try reader.text(), text: try reader.text(), time: time)
    if let place { recording.stalls[place].notes.append(note) }
  }

  private mutating func addState(_ reader: inout ByteReader) throws {
    let place = stallPlaces[try reader.number()]
    let progress = try Progress(&reader)
    let hasEnded: UInt8 = try reader.number()
    guard let place, !recording.stalls[place].hasEnded else { return }
    set(progress, hasEnded: hasEnded != 0, of: place)
  }

  private mutating func addEnd(_ reader: inout ByteReader) throws {
    let place = stallPlaces[try reader.number()]
    let progress = try Progress(&reader)
    var cost = ObservationCost()
    cost.fromOutside = Int(try reader.number(UInt32.self))
    cost.bySignal = Int(try reader.number(UInt32.self))
    cost.withoutStack = Int(try reader.number(UInt32.self))
    cost.longestHandlerTime = try reader.duration()
    cost.handlerTime = try reader.duration()
    cost.unwindTime = try reader.duration()
    guard let place else { return }
    set(progress, hasEnded: true, of: place)
    recording.stalls[place].cost = cost
    damageAtEnd[place] = damageSoFar
  }

  private struct Progress {
    var duration: Duration
    var gap: Duration
    var lostSamples: UInt64

    init(_ reader: inout ByteReader) throws {
      duration = try reader.duration()
      gap = try reader.duration()
      lostSamples = try reader.number()
    }
  }

  private mutating func set(_ progress: Progress, hasEnded: Bool, of place: Int) {
    recording.stalls[place].duration = progress.duration
    recording.stalls[place].gap = progress.gap
    recording.stalls[place].lostSamples = progress.lostSamples
    recording.stalls[place].hasEnded = hasEnded
  }

  private mutating func addOther(_ reader: inout ByteReader) throws {
    let place = stallPlaces[try reader.number()]
    let thread = thread(try reader.signed())
    let stack = stackPlaces[try reader.number()]
    let outcome = CaptureOutcome(rawValue: try reader.number()) ?? .noAnswer
    let cpuTime = try reader.knownDuration()
    let (handlerTime, unwindTime) = (try reader.duration(), try reader.duration())
    let other = ThreadSample(
      thread: thread,
      stack: stack,
      outcome: outcome,
      cpuTime: cpuTime,
      activity: try reader.activity(),
      handlerTime: handlerTime,
      unwindTime: unwindTime
    )
    guard let place else { return }
    recording.stalls[place].others = recording.stalls[place].others ?? AllThreads()
    recording.stalls[place].others?.threads.append(other)
    recording.stalls[place].cost.add(outcome: outcome, handlerTime: handlerTime, unwindTime: unwindTime)
  }

  private mutating func addOthersEnd(_ reader: inout ByteReader) throws {
    let place = stallPlaces[try reader.number()]
    let leftOut: UInt32 = try reader.number()
    guard let place else { return }
    recording.stalls[place].others = recording.stalls[place].others ?? AllThreads()
    recording.stalls[place].others?.leftOut = Int(leftOut)
    recording.stalls[place].others?.isComplete = true
  }
}

package func hexadecimal(_ bytes: [UInt8]) -> String {
  bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
}

func hexadecimal(_ number: UInt32) -> String { "0x" + String(number, radix: 16) }

extension ByteReader {
  fileprivate mutating func activity() throws -> ThreadActivity {
    ThreadActivity(code: try number(), call: try signed())
  }

  fileprivate mutating func lock() throws -> HeldLock? {
    let kind: UInt8 = try number()
    guard kind != 0 else { return nil }
    var lock = HeldLock(
      kind: HeldLock.Kind(code: kind),
      address: try number(),
      holderID: try signed(),
      waiterID: try signed()
    )
    let flags: UInt8 = try number()
    (lock.isOrphaned, lock.isTimed) = (flags & 1 != 0, flags & 2 != 0)
    return lock
  }

  fileprivate mutating func descriptor() throws -> Descriptor? {
    let flags: UInt8 = try number()
    guard flags & 1 != 0 else { return nil }
    var descriptor = Descriptor(number: try signed(), target: try text(), address: try data())
    (descriptor.isCut, descriptor.isPeersAddress) = (flags & 2 != 0, flags & 4 != 0)
    descriptor.unreadBytes = try count(unknown: .max)
    descriptor.unsentBytes = try count(unknown: .max)
    return descriptor
  }

  private mutating func count(unknown: UInt32) throws -> UInt32? {
    let count: UInt32 = try number()
    return count == unknown ? nil : count
  }

  fileprivate mutating func evidence() throws -> SampleEvidence {
    var evidence = SampleEvidence()
    let parts: UInt8 = try number()
    if parts & 1 != 0 { for _ in 0..<6 { evidence.arguments.append(try number()) } }
    if parts & 2 != 0 { for _ in 0..<(try number(UInt8.self)) { evidence.words.append(try number()) } }
    if parts & 4 != 0 { evidence.kernelFunction = try text() }
    if parts & 8 != 0 { evidence.timeslices = try number() }
    if parts & 16 != 0 {
      var counters = ThreadCounters()
      for count in ThreadCounters.all { counters[keyPath: count] = try number() }
      evidence.counters = counters
    }
    guard parts & 32 != 0 else { return evidence }
    var surroundings = SurroundingCounters()
    surroundings.throttled = try knownDuration()
    surroundings.memoryStalled = try knownDuration()
    surroundings.diskStalled = try knownDuration()
    surroundings.runnableThreads = try count(unknown: 0)
    surroundings.cpuCount = try count(unknown: 0)
    if parts & 64 != 0 {
      surroundings.refaultedBytes = try knownNumber()
      surroundings.memoryLimitHits = try knownNumber()
    }
    evidence.surroundings = surroundings
    return evidence
  }
}

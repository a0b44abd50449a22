/// The reason why a file is not readable as a `.stall` file.
package enum StallFileError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The file is empty.
  case empty
  /// The file ends inside its header.
  case cutInHeader(bytes: Int)
  /// The file does not start with the magic bytes.
  case notAStallFile(begins: [UInt8])
  /// The header is damaged.
  case damagedHeader(expected: UInt32, found: UInt32)
  /// A newer version of Culprit wrote the file in an incompatible format.
  case newerVersion(major: UInt16, minor: UInt16)
  /// The file has too much data other than samples.
  case tooLarge(bytes: Int)

  /// A message without a final period, to follow the file's name.
  package var description: String {
    switch self {
    case .empty: "is empty; a .stall file has at least \(StallFileFormat.headerBytes) bytes"
    case .cutInHeader(let bytes):
      "ends after \(bytes) bytes, inside the header of \(StallFileFormat.headerBytes) bytes"
    case .notAStallFile(let begins):
      "is not a .stall file: it begins with \(hexadecimal(begins)), not \(hexadecimal(StallFileFormat.magic))"
    case .damagedHeader(let expected, let found):
      "has a damaged header: its checksum is \(hexadecimal(found)), its content gives \(hexadecimal(expected))"
    case .newerVersion(let major, let minor):
      "has format version \(major).\(minor); this culprit reads versions up to \(StallFileFormat.majorVersion).x"
    case .tooLarge(let bytes): "has more than \(bytes) bytes beside samples, which no .stall file has"
    }
  }
}

/// A problem with a part of a file. The rest could be read.
package struct StallFileProblem: Hashable, Sendable, CustomStringConvertible {
  /// The file offset of the part, in bytes.
  package var offset: Int
  /// A message without a final period.
  package var text: String

  /// The message with the offset.
  package var description: String { "at byte \(offset): \(text)" }
}

/// The readable content of a `.stall` file.
package struct StallFile: Sendable {
  /// The recording.
  package var recording: Recording
  /// The format version of the file.
  package var version: (major: UInt16, minor: UInt16)
  /// The number of valid records.
  package var recordCount = 0
  /// The tag of all records of the file; 0 before version 1.2.
  package var tag: UInt16 = 0
  /// The unreadable parts.
  package var problems: [StallFileProblem]

  /// All samples of each stall, if requested.
  package private(set) var logs: [SampleLog] = []

  /// The data to keep of a file.
  package struct Extent: Sendable {
    /// Minimum number of samples to keep of each stall; less than twice as many are kept, evenly selected.
    package var samples: Int
    /// Whether to fill ``StallFile/logs``.
    package var logsSamples: Bool
    /// The storage for large logs.
    package var store: (any OverflowStore)?

    /// Creates an extent; by default, all samples without logs.
    package init(samples: Int = .max, logsSamples: Bool = false, store: (any OverflowStore)? = nil) {
      (self.samples, self.logsSamples, self.store) = (samples, logsSamples, store)
    }
  }

  /// The first bytes of every file, in all versions.
  package static let beginning = StallFileFormat.magic

  /// Maximum number of bytes other than samples, which must fit into memory.
  private static let keptBytesMax = 256 << 20

  /// Reads a file from `bytes`.
  ///
  /// Damage affects only the damaged records: a truncated file loses its last record, and after a corrupt record,
  /// reading continues at the next valid one.
  ///
  /// - Parameters:
  ///   - bytes: The content of the file.
  ///   - samples: Minimum number of samples to keep of each stall; less than twice as many are kept, evenly selected.
  /// - Throws: ``StallFileError`` if there is no header that this version understands.
  package init(bytes: [UInt8], samples: Int = .max) throws(StallFileError) {
    try self.init(RecordScanner(bytes: bytes), Extent(samples: samples))
  }

  /// Reads a file in pieces. Only the requested data is kept.
  ///
  /// - Parameters:
  ///   - extent: The data to keep.
  ///   - piece: Returns the next bytes, any number of them; empty at the end. If the file is no `.stall` file, it is
  ///     not called beyond the header.
  /// - Throws: ``StallFileError`` if there is no header that this version understands.
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
      // Damage after the end of a stall cannot affect its samples.
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
        // The last byte of the record in version 1.2: whether the stall has ended.
        let place = record.payload.startIndex + 32
        if place < record.payload.endIndex, record.payload[place] != 0 { return true }
      default: break
      }
    }
    return false
  }

  /// Whether `part` of a file with one stall contains the note that its report has been delivered. The part can start
  /// anywhere in the file.
  package static func isReported(_ part: [UInt8]) -> Bool {
    var scanner = RecordScanner(bytes: part)
    while let record = scanner.next() {
      // The first byte of the record after the id of the stall: the kind of note.
      let place = record.payload.startIndex + 8
      if record.kind == StallFileFormat.RecordKind.note.rawValue, place < record.payload.endIndex,
        StallNote.Kind(code: record.payload[place]) == .reported
      {
        return true
      }
    }
    return false
  }

  /// Whether the file's version has notes about delivered reports.
  package var hasReportedNotes: Bool { version >= (1, 11) }

  /// Whether a file that starts with `bytes` can be a `.stall` file.
  package static func canBegin(with bytes: [UInt8]) -> Bool {
    bytes.starts(with: StallFileFormat.magic.prefix(bytes.count))
  }

  private static func checkedVersion(_ bytes: [UInt8]) throws(StallFileError) -> (major: UInt16, minor: UInt16) {
    guard !bytes.isEmpty else { throw .empty }
    let magic = StallFileFormat.magic
    guard bytes.starts(with: magic.prefix(bytes.count)) else {
      throw .notAStallFile(begins: Array(bytes.prefix(magic.count)))
    }
    guard bytes.count >= StallFileFormat.headerBytes else { throw .cutInHeader(bytes: bytes.count) }
    var reader = ByteReader(bytes[magic.count..<StallFileFormat.headerBytes])
    let major: UInt16 = reader.number() ?? 0
    let minor: UInt16 = reader.number() ?? 0
    let found: UInt32 = reader.number() ?? 0
    let expected = CRC32.checksum(bytes[..<(StallFileFormat.headerBytes - 4)])
    guard found == expected else { throw .damagedHeader(expected: expected, found: found) }
    guard major <= StallFileFormat.majorVersion else { throw .newerVersion(major: major, minor: minor) }
    return (major, minor)
  }
}

/// Assembles a recording from records.
private struct RecordingBuilder {
  var problems: [StallFileProblem] = []
  /// The number of damaged parts so far, and the number before the end of each ended stall, by the stall's index.
  var damageSoFar = 0
  private(set) var damageAtEnd: [Int: Int] = [:]
  private var recording = Recording(process: nil)
  private var threads: [Int32: String] = [:]
  private var stackPlaces: [UInt32: Int] = [:]
  private var stallPlaces: [UInt64: Int] = [:]
  private var samplesWithoutStall = 0
  /// The sample selection and the age of the last sample of each stall, by the stall's index.
  private var selections: [SampleSelection] = []
  private var lastSeen: [Duration] = []
  /// All samples of each stall, if requested.
  private(set) var logs: [SampleLog] = []
  private let extent: StallFile.Extent

  init(_ extent: StallFile.Extent) { self.extent = extent }

  /// Adds a record. Returns `false` if its payload is too short for its kind. Unknown kinds, and bytes after the known
  /// ones, come from newer minor versions and are ignored.
  mutating func add(kind: UInt16, payload: ArraySlice<UInt8>) -> Bool {
    var reader = ByteReader(payload)
    switch StallFileFormat.RecordKind(rawValue: kind) {
    case .process: return addProcess(&reader)
    case .module: return addModule(&reader)
    case .thread: return addThread(&reader)
    case .stack: return addStack(&reader)
    case .stallBegan: return addBegin(&reader)
    case .sample: return addSample(&reader)
    case .holder: return addHolder(&reader)
    case .stallEnded: return addEnd(&reader)
    case .stallGoesOn: return addState(&reader)
    case .otherThread: return addOther(&reader)
    case .othersCaptured: return addOthersEnd(&reader)
    case .name: return addName(&reader)
    case .note: return addNote(&reader)
    // Only used by programs that add names.
    case .namesLookedUp: return true
    case nil: return true
    }
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

  private mutating func addProcess(_ reader: inout ByteReader) -> Bool {
    guard let id = reader.signed(), let executable = reader.text(), let architecture = reader.text(),
      let version = reader.text(), let since = reader.number(UInt64.self)
    else { return false }
    recording.process = ObservedProcess(
      id: id,
      executable: executable,
      architecture: architecture,
      observerVersion: version,
      watchedSince: WallTime(nanosecondsSince1970: since),
      // Missing in files before version 1.3.
      ownModules: reader.texts() ?? [],
      wrappers: reader.texts() ?? [],
      // Missing in files before version 1.9.
      host: reader.text() ?? ""
    )
    return true
  }

  private mutating func addModule(_ reader: inout ByteReader) -> Bool {
    guard let path = reader.text(), let buildID = reader.data(), let count = reader.number(UInt16.self) else {
      return false
    }
    var mappings: [Module.Mapping] = []
    for _ in 0..<count {
      guard let start = reader.number(UInt64.self), let end = reader.number(UInt64.self),
        let offset = reader.number(UInt64.self)
      else { return false }
      mappings.append(
        Module.Mapping(start: RuntimeAddress(start), end: RuntimeAddress(end), fileOffset: offset)
      )
    }
    // Missing in files before version 1.3.
    let bias = reader.number(UInt64.self) ?? .max
    recording.modules.append(
      Module(path: path, buildID: buildID, mappings: mappings, bias: bias == .max ? nil : bias)
    )
    return true
  }

  private mutating func addThread(_ reader: inout ByteReader) -> Bool {
    guard let id = reader.signed(), let name = reader.text() else { return false }
    threads[id] = name
    return true
  }

  private mutating func addStack(_ reader: inout ByteReader) -> Bool {
    guard let id = reader.number(UInt32.self), let end = reader.number(UInt8.self),
      let count = reader.number(UInt16.self), reader.remaining >= Int(count) * 9
    else { return false }
    var frames: [StackFrame] = []
    frames.reserveCapacity(Int(count))
    for _ in 0..<count {
      guard let kind = reader.number(UInt8.self), let address = reader.number(UInt64.self) else { return false }
      frames.append(StackFrame(RuntimeAddress(address), FrameKind(rawValue: kind) ?? .programCounter))
    }
    var stack = Stack(frames: frames, end: StackEnd(rawValue: end) ?? .failed)
    // Files before version 1.3 end here.
    if let joined = reader.number(UInt16.self), let place = reader.number(UInt16.self),
      let omitted = reader.number(UInt32.self)
    {
      if joined < count { stack.joinedFrom = Int(joined) }
      if place <= count, omitted > 0 { stack.omission = Stack.Omission(index: Int(place), count: Int(omitted)) }
      for index in frames.indices {
        guard let start = reader.number(UInt64.self) else { return false }
        if start != 0 { stack.frames[index].functionStart = RuntimeAddress(start) }
      }
    }
    stackPlaces[id] = recording.stacks.count
    recording.stacks.append(stack)
    return true
  }

  private mutating func addBegin(_ reader: inout ByteReader) -> Bool {
    guard let id = reader.number(UInt64.self), let kind = reader.number(UInt8.self), let name = reader.text(),
      let threadID = reader.signed(), let threshold = reader.duration(), let began = reader.number(UInt64.self)
    else { return false }
    stallPlaces[id] = recording.stalls.count
    selections.append(SampleSelection(atLeast: extent.samples))
    lastSeen.append(.zero)
    if extent.logsSamples { logs.append(SampleLog(store: extent.store)) }
    recording.stalls.append(
      Stall(
        id: id,
        source: WatchedSource(kind: SourceKind(code: kind), name: name),
        thread: ObservedThread(id: threadID, name: threads[threadID] ?? ""),
        threshold: threshold,
        began: WallTime(nanosecondsSince1970: began)
      )
    )
    return true
  }

  private mutating func addSample(_ reader: inout ByteReader) -> Bool {
    guard let stallID = reader.number(UInt64.self), let sample = sample(&reader) else { return false }
    guard let place = stallPlaces[stallID] else {
      samplesWithoutStall += 1
      return true
    }
    recording.stalls[place].cost.add(sample)
    lastSeen[place] = max(lastSeen[place], sample.age)
    if extent.logsSamples { logs[place].append(sample) }
    selections[place].add(sample, to: &recording.stalls[place].samples)
    return true
  }

  private mutating func addHolder(_ reader: inout ByteReader) -> Bool {
    guard let stallID = reader.number(UInt64.self), let address = reader.number(UInt64.self),
      let flags = reader.number(UInt8.self), var sample = sample(&reader)
    else { return false }
    guard let place = stallPlaces[stallID] else { return true }
    let thread = sample.threadID ?? 0
    sample.threadID = nil
    recording.stalls[place].cost.add(sample)
    recording.stalls[place].holders.append(
      HolderSample(
        address: address,
        thread: ObservedThread(id: thread, name: threads[thread] ?? ""),
        isHeld: flags & 1 != 0,
        sample: sample
      )
    )
    return true
  }

  /// Reads the next sample; `nil` if it is shorter than in the first version.
  private func sample(_ reader: inout ByteReader) -> Sample? {
    guard let age = reader.duration(), let stack = reader.number(UInt32.self), let outcome = reader.number(UInt8.self),
      let cpu = reader.number(UInt64.self), let handler = reader.duration(), let unwind = reader.duration(),
      let activity = reader.number(UInt8.self), let call = reader.signed()
    else { return nil }
    // Missing in files before version 1.2.
    let progress = reader.number(UInt32.self) ?? 0
    let label = reader.text() ?? ""
    // Missing in files before version 1.3.
    let runDelay = reader.number(UInt64.self) ?? .max
    // Missing in files before version 1.4.
    let threadID = reader.signed() ?? 0
    // Missing in files before version 1.5.
    let obstacle = reader.number(UInt8.self).flatMap(Sample.Obstacle.init)
    // Missing in files before version 1.6.
    let waitingCount = reader.number(UInt32.self) ?? 0
    let descriptor = Self.descriptor(&reader)
    // Missing in files before version 1.7.
    let lock = Self.lock(&reader)
    // Missing in files before version 1.8.
    let evidence = SampleEvidence(&reader)
    return Sample(
      age: age,
      stack: stackPlaces[stack],
      outcome: CaptureOutcome(rawValue: outcome) ?? .noAnswer,
      cpuTime: cpu == .max ? nil : Duration(wholeNanoseconds: cpu),
      activity: ThreadActivity(code: activity, call: call),
      handlerTime: handler,
      unwindTime: unwind,
      label: label,
      progress: progress,
      runDelay: runDelay == .max ? nil : Duration(wholeNanoseconds: runDelay),
      threadID: threadID == 0 ? nil : threadID,
      obstacle: obstacle,
      waitingCount: waitingCount,
      descriptor: descriptor,
      lock: lock,
      evidence: evidence
    )
  }

  /// Reads the lock at the end of a sample; `nil` if there is none.
  private static func lock(_ reader: inout ByteReader) -> HeldLock? {
    guard let kind = reader.number(UInt8.self), kind != 0, let address = reader.number(UInt64.self),
      let holder = reader.signed(), let waiter = reader.signed(), let flags = reader.number(UInt8.self)
    else { return nil }
    return HeldLock(
      kind: HeldLock.Kind(code: kind),
      address: address,
      holderID: holder,
      waiterID: waiter,
      isOrphaned: flags & 1 != 0,
      isTimed: flags & 2 != 0
    )
  }

  /// Reads the descriptor at the end of a sample; `nil` if there is none.
  private static func descriptor(_ reader: inout ByteReader) -> Descriptor? {
    guard let flags = reader.number(UInt8.self), flags & 1 != 0, let number = reader.signed(),
      let target = reader.text(),
      let address = reader.data(), let unread = reader.number(UInt32.self), let unsent = reader.number(UInt32.self)
    else { return nil }
    return Descriptor(
      number: number,
      target: target,
      isCut: flags & 2 != 0,
      address: address,
      isPeersAddress: flags & 4 != 0,
      unreadBytes: unread == .max ? nil : unread,
      unsentBytes: unsent == .max ? nil : unsent
    )
  }

  private mutating func addNote(_ reader: inout ByteReader) -> Bool {
    guard let stallID = reader.number(UInt64.self), let kind = reader.number(UInt8.self), let time = reader.duration(),
      let title = reader.text(), let text = reader.text()
    else { return false }
    guard let place = stallPlaces[stallID] else { return true }
    recording.stalls[place].notes.append(StallNote(StallNote.Kind(code: kind), title: title, text: text, time: time))
    return true
  }

  private mutating func addState(_ reader: inout ByteReader) -> Bool {
    guard let id = reader.number(UInt64.self), let duration = reader.duration(), let gap = reader.duration(),
      let lost = reader.number(UInt64.self)
    else { return false }
    guard let place = stallPlaces[id], !recording.stalls[place].hasEnded else { return true }
    recording.stalls[place].duration = duration
    recording.stalls[place].gap = gap
    recording.stalls[place].lostSamples = lost
    if let hasEnded = reader.number(UInt8.self) { recording.stalls[place].hasEnded = hasEnded != 0 }
    return true
  }

  private mutating func addEnd(_ reader: inout ByteReader) -> Bool {
    guard let id = reader.number(UInt64.self), let duration = reader.duration(), let gap = reader.duration(),
      let lost = reader.number(UInt64.self)
    else { return false }
    guard let place = stallPlaces[id] else { return true }
    recording.stalls[place].duration = duration
    recording.stalls[place].gap = gap
    recording.stalls[place].lostSamples = lost
    recording.stalls[place].hasEnded = true
    damageAtEnd[place] = damageSoFar
    addCost(&reader, place)
    return true
  }

  /// Reads the observation cost. Files of version 1.0 do not contain it; the sum of their samples is kept.
  private mutating func addCost(_ reader: inout ByteReader, _ place: Int) {
    guard let outside = reader.number(UInt32.self), let signal = reader.number(UInt32.self),
      let without = reader.number(UInt32.self), let longest = reader.duration(), let handler = reader.duration(),
      let unwind = reader.duration()
    else { return }
    var cost = ObservationCost()
    cost.fromOutside = Int(outside)
    cost.bySignal = Int(signal)
    cost.withoutStack = Int(without)
    cost.longestHandlerTime = longest
    cost.handlerTime = handler
    cost.unwindTime = unwind
    recording.stalls[place].cost = cost
  }

  private mutating func addOther(_ reader: inout ByteReader) -> Bool {
    guard let stallID = reader.number(UInt64.self), let threadID = reader.signed(),
      let stack = reader.number(UInt32.self), let outcome = reader.number(UInt8.self),
      let cpu = reader.number(UInt64.self), let handler = reader.duration(), let unwind = reader.duration(),
      let activity = reader.number(UInt8.self), let call = reader.signed()
    else { return false }
    guard let place = stallPlaces[stallID] else { return true }
    let other = ThreadSample(
      thread: ObservedThread(id: threadID, name: threads[threadID] ?? ""),
      stack: stackPlaces[stack],
      outcome: CaptureOutcome(rawValue: outcome) ?? .noAnswer,
      cpuTime: cpu == .max ? nil : Duration(wholeNanoseconds: cpu),
      activity: ThreadActivity(code: activity, call: call),
      handlerTime: handler,
      unwindTime: unwind
    )
    recording.stalls[place].others = recording.stalls[place].others ?? AllThreads()
    recording.stalls[place].others?.threads.append(other)
    recording.stalls[place].cost.add(outcome: other.outcome, handlerTime: handler, unwindTime: unwind)
    return true
  }

  private mutating func addName(_ reader: inout ByteReader) -> Bool {
    guard let (address, frames) = NameRecord.read(&reader) else { return false }
    recording.names[address] = frames
    return true
  }

  private mutating func addOthersEnd(_ reader: inout ByteReader) -> Bool {
    guard let stallID = reader.number(UInt64.self), let leftOut = reader.number(UInt32.self) else { return false }
    guard let place = stallPlaces[stallID] else { return true }
    recording.stalls[place].others = recording.stalls[place].others ?? AllThreads()
    recording.stalls[place].others?.leftOut = Int(leftOut)
    recording.stalls[place].others?.isComplete = true
    return true
  }
}

/// Returns `bytes` in hexadecimal, two digits each.
package func hexadecimal(_ bytes: [UInt8]) -> String {
  bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
}

func hexadecimal(_ number: UInt32) -> String { "0x" + String(number, radix: 16) }

extension SampleEvidence {
  /// Reads the evidence at the end of a sample.
  fileprivate init(_ reader: inout ByteReader) {
    self.init()
    guard let parts = reader.number(UInt8.self) else { return }
    if parts & 1 != 0 {
      let read = (0..<6).compactMap { _ in reader.number(UInt64.self) }
      if read.count == 6 { arguments = read }
    }
    if parts & 2 != 0 {
      let count = reader.number(UInt8.self) ?? 0
      words = (0..<Int(count)).compactMap { _ in reader.number(UInt32.self) }
    }
    if parts & 4 != 0 { kernelFunction = reader.text() ?? "" }
    if parts & 8 != 0 { turns = reader.number(UInt64.self) }
    if parts & 16 != 0 {
      var read = ThreadCounters()
      for count in ThreadCounters.all { read[keyPath: count] = reader.number(UInt64.self) ?? 0 }
      counters = read
    }
    guard parts & 32 != 0 else { return }
    func time() -> Duration? {
      reader.number(UInt64.self).flatMap { $0 == .max ? nil : Duration(wholeNanoseconds: $0) }
    }
    var read = SurroundingCounters()
    read.throttled = time()
    read.memoryStalled = time()
    read.diskStalled = time()
    read.runnableThreads = reader.number(UInt32.self).flatMap { $0 == 0 ? nil : $0 }
    read.processors = reader.number(UInt32.self).flatMap { $0 == 0 ? nil : $0 }
    surroundings = read
  }
}

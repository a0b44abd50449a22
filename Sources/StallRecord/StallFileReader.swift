/// Why a file cannot be read as a `.stall` file at all.
package enum StallFileError: Error, Hashable, Sendable, CustomStringConvertible {
  /// There is nothing in it.
  case empty
  /// It ends before its header does.
  case cutInHeader(bytes: Int)
  /// It begins with something else.
  case notAStallFile(begins: [UInt8])
  /// Its header is damaged.
  case damagedHeader(expected: UInt32, found: UInt32)
  /// A newer Culprit wrote it, in a way that this one cannot read.
  case newerVersion(major: UInt16, minor: UInt16)
  /// It has so much beside samples that it cannot be one.
  case tooLarge(bytes: Int)

  /// The error as a sentence without its end, to follow a file's name.
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

/// What was wrong with a part of a file of which the rest could be read.
package struct StallFileProblem: Hashable, Sendable, CustomStringConvertible {
  /// Where the part begins, in bytes from the file's beginning.
  package var offset: Int
  /// What is wrong, as a sentence without its end.
  package var text: String

  /// The problem with its place.
  package var description: String { "at byte \(offset): \(text)" }
}

/// A `.stall` file as far as it could be read.
package struct StallFile: Sendable {
  /// What it holds.
  package var recording: Recording
  /// The format version it was written in.
  package var version: (major: UInt16, minor: UInt16)
  /// How many whole records it has.
  package var recordCount = 0
  /// The number that all its records have, 0 before version 1.2.
  package var tag: UInt16 = 0
  /// What could not be read.
  package var problems: [StallFileProblem]

  /// Every sample of each stall, where that was wanted.
  package private(set) var logs: [SampleLog] = []

  /// What is kept of a file.
  package struct Extent: Sendable {
    /// So many samples of each stall, and less than twice as many, are enough: of more, some are left out evenly.
    package var samples: Int
    /// Whether ``StallFile/logs`` are wanted.
    package var logsSamples: Bool
    /// Where what is logged goes when there is much of it.
    package var store: (any OverflowStore)?

    /// So much of a file; all, where nothing else is said.
    package init(samples: Int = .max, logsSamples: Bool = false, store: (any OverflowStore)? = nil) {
      (self.samples, self.logsSamples, self.store) = (samples, logsSamples, store)
    }
  }

  /// What every file begins with, whatever its version.
  package static let beginning = StallFileFormat.magic

  /// A file has so many bytes beside samples at most: what is kept of it has to fit into memory.
  private static let keptBytesMax = 256 << 20

  /// Reads a file from its `bytes`.
  ///
  /// Damage costs the records it touches: a file that was cut off loses its last record only, and after a corrupt record
  /// reading goes on at the next one that is whole.
  ///
  /// - Parameters:
  ///   - bytes: What the file holds.
  ///   - samples: So many samples of each stall, and less than twice as many, are enough: of more, some are left out evenly.
  /// - Throws: ``StallFileError`` when there is no header that this version understands.
  package init(bytes: [UInt8], samples: Int = .max) throws(StallFileError) {
    try self.init(RecordScanner(bytes: bytes), Extent(samples: samples))
  }

  /// Reads a file whose bytes come in pieces, of which it keeps no more than it needs.
  ///
  /// - Parameters:
  ///   - extent: What is kept.
  ///   - piece: Gives the next bytes, any number of them; none at the end. Not asked beyond the header of what is no such file.
  /// - Throws: ``StallFileError`` when there is no header that this version understands.
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
      // What follows a stall's end is none of its samples.
      let damage = builder.damageAtEnd[index] ?? scanner.problems.count
      recording.stalls[index].isDamaged = damage > 0 || !builder.problems.isEmpty
    }
  }

  /// Whether the bytes `part` of a file with one stall, from its beginning on or from anywhere, say that the stall has ended.
  package static func hasEnd(_ part: [UInt8]) -> Bool {
    var scanner = RecordScanner(bytes: part)
    while let record = scanner.next() {
      switch StallFileFormat.RecordKind(rawValue: record.kind) {
      case .stallEnded: return true
      case .stallGoesOn:
        // The last byte that version 1.2 has.
        let place = record.payload.startIndex + 32
        if place < record.payload.endIndex, record.payload[place] != 0 { return true }
      default: break
      }
    }
    return false
  }

  /// Whether a file that begins with `bytes` may be a `.stall` file.
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

/// Puts records together.
private struct RecordingBuilder {
  var problems: [StallFileProblem] = []
  /// How much damage there was before the record that is added, and before the end of each stall that has one, by its place.
  var damageSoFar = 0
  private(set) var damageAtEnd: [Int: Int] = [:]
  private var recording = Recording(process: nil)
  private var threads: [Int32: String] = [:]
  private var stackPlaces: [UInt32: Int] = [:]
  private var stallPlaces: [UInt64: Int] = [:]
  private var samplesWithoutStall = 0
  /// Which samples of each stall are kept, by its place, and the age of the last of all.
  private var selections: [SampleSelection] = []
  private var lastSeen: [Duration] = []
  /// All samples of each stall, where they are wanted.
  private(set) var logs: [SampleLog] = []
  private let extent: StallFile.Extent

  init(_ extent: StallFile.Extent) { self.extent = extent }

  /// Adds a record. Returns `false` when its payload is shorter than its kind requires; a kind that is not known, and
  /// bytes after what is known, are a newer minor version's and are passed over.
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
    // For who adds names.
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
      // Files before version 1.3 do not say it.
      ownModules: reader.texts() ?? [],
      wrappers: reader.texts() ?? [],
      // Nor do files before version 1.9 this.
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
    // Files before version 1.3 do not say it.
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
    // Files before version 1.3 have nothing more.
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

  /// The sample that follows; `nil` where it is shorter than the first version had it.
  private func sample(_ reader: inout ByteReader) -> Sample? {
    guard let age = reader.duration(), let stack = reader.number(UInt32.self), let outcome = reader.number(UInt8.self),
      let cpu = reader.number(UInt64.self), let handler = reader.duration(), let unwind = reader.duration(),
      let activity = reader.number(UInt8.self), let call = reader.signed()
    else { return nil }
    // Files before version 1.2 say neither.
    let progress = reader.number(UInt32.self) ?? 0
    let label = reader.text() ?? ""
    // Files before version 1.3 do not say it.
    let runDelay = reader.number(UInt64.self) ?? .max
    // Files before version 1.4 do not.
    let threadID = reader.signed() ?? 0
    // Files before version 1.5 do not.
    let obstacle = reader.number(UInt8.self).flatMap(Sample.Obstacle.init)
    // Files before version 1.6 do not.
    let waitingCount = reader.number(UInt32.self) ?? 0
    let descriptor = Self.descriptor(&reader)
    // Files before version 1.7 do not.
    let lock = Self.lock(&reader)
    // Files before version 1.8 do not.
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

  /// The lock at the end of a sample; `nil` where there is none.
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

  /// The descriptor at the end of a sample; `nil` where there is none.
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

  /// What the observation cost; files of version 1.0 do not say it, and what their samples say is kept.
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

/// `bytes` in hexadecimal, two digits each.
package func hexadecimal(_ bytes: [UInt8]) -> String {
  bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
}

func hexadecimal(_ number: UInt32) -> String { "0x" + String(number, radix: 16) }

extension SampleEvidence {
  /// That at the end of a sample.
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

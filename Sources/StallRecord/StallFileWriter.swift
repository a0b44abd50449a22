/// Makes the bytes of a `.stall` file, piece by piece, so that a file can grow while the stall lasts.
///
/// The pieces belong in this order: the header; the process; modules, threads and stacks before the first record that
/// refers to them; the beginning of a stall before its samples; its end.
package enum StallFileWriter {
  /// The beginning of a file.
  package static func header() -> [UInt8] {
    var writer = ByteWriter()
    for byte in StallFileFormat.magic { writer.append(byte) }
    writer.append(StallFileFormat.majorVersion)
    writer.append(StallFileFormat.minorVersion)
    writer.append(CRC32.checksum(writer.bytes[...]))
    return writer.bytes
  }

  /// The record of `process`.
  package static func record(of process: ObservedProcess) -> [UInt8] {
    record(.process) {
      $0.append(process.id)
      $0.append(process.executable)
      $0.append(process.architecture)
      $0.append(process.observerVersion)
      $0.append(process.watchedSince.nanosecondsSince1970)
      for texts in [process.ownModules, process.wrappers] {
        let kept = texts.prefix(StallFileFormat.listMax)
        $0.append(UInt16(kept.count))
        for text in kept { $0.append(String(text.prefix(StallFileFormat.listedCharactersMax))) }
      }
      $0.append(process.host)
    }
  }

  /// The record of `module`.
  package static func record(of module: Module) -> [UInt8] {
    record(.module) {
      $0.append(module.path)
      $0.append(bytes: module.buildID)
      let mappings = module.mappings.prefix(Int(UInt16.max))
      $0.append(UInt16(mappings.count))
      for mapping in mappings {
        $0.append(mapping.start.value)
        $0.append(mapping.end.value)
        $0.append(mapping.fileOffset)
      }
      $0.append(module.bias ?? UInt64.max)
    }
  }

  /// The record of `thread`.
  package static func record(of thread: ObservedThread) -> [UInt8] {
    record(.thread) {
      $0.append(thread.id)
      $0.append(thread.name)
    }
  }

  /// The record of `stack`, the one to which samples refer as `index`.
  package static func record(of stack: Stack, index: Int) -> [UInt8] {
    record(.stack) {
      $0.append(UInt32(index))
      $0.append(stack.end.rawValue)
      let frames = stack.frames.prefix(Int(UInt16.max))
      $0.append(UInt16(frames.count))
      for frame in frames {
        $0.append(frame.kind.rawValue)
        $0.append(frame.address.value)
      }
      $0.append(stack.joinedFrom.map { UInt16(clamping: $0) } ?? UInt16.max)
      $0.append(stack.omission.map { UInt16(clamping: $0.index) } ?? UInt16.max)
      $0.append(UInt32(clamping: stack.omission?.count ?? 0))
      for frame in frames { $0.append(frame.functionStart?.value ?? 0) }
    }
  }

  /// The record that `stall` has been declared: everything about it but its samples and its end.
  package static func record(ofBeginOf stall: Stall) -> [UInt8] {
    record(.stallBegan) {
      $0.append(stall.id)
      $0.append(stall.source.kind.code)
      $0.append(stall.source.name)
      $0.append(stall.thread.id)
      $0.append(stall.threshold.wholeNanoseconds)
      $0.append(stall.began.nanosecondsSince1970)
    }
  }

  /// The record of `sample`, which belongs to the stall `stallID`.
  package static func record(of sample: Sample, stallID: UInt64) -> [UInt8] {
    record(.sample) {
      $0.append(stallID)
      append(sample, to: &$0)
    }
  }

  /// The record of `holder`, which belongs to the stall `stallID`. The record of its ``HolderSample/thread`` goes before it.
  package static func record(of holder: HolderSample, stallID: UInt64) -> [UInt8] {
    record(.holder) {
      $0.append(stallID)
      $0.append(holder.address)
      $0.append(UInt8(holder.isHeld ? 1 : 0))
      var sample = holder.sample
      sample.threadID = holder.thread.id
      append(sample, to: &$0)
    }
  }

  private static func append(_ sample: Sample, to writer: inout ByteWriter) {
    writer.append(sample.age.wholeNanoseconds)
    writer.append(sample.stack.map { UInt32($0) } ?? UInt32.max)
    writer.append(sample.outcome.rawValue)
    writer.append(sample.cpuTime.map(\.wholeNanoseconds) ?? UInt64.max)
    writer.append(sample.handlerTime.wholeNanoseconds)
    writer.append(sample.unwindTime.wholeNanoseconds)
    writer.append(sample.activity)
    writer.append(sample.progress)
    writer.append(sample.label)
    writer.append(sample.runDelay.map(\.wholeNanoseconds) ?? UInt64.max)
    writer.append(sample.threadID ?? 0)
    writer.append(sample.obstacle?.rawValue ?? 0)
    writer.append(sample.waitingCount)
    append(sample.descriptor, to: &writer)
    append(sample.lock, to: &writer)
    append(sample.evidence, to: &writer)
  }

  /// Which parts there are, and each of them.
  private static func append(_ evidence: SampleEvidence, to writer: inout ByteWriter) {
    let parts: [(UInt8, Bool)] = [
      (1, !evidence.arguments.isEmpty), (2, !evidence.words.isEmpty), (4, !evidence.kernelFunction.isEmpty),
      (8, evidence.turns != nil), (16, evidence.counters != nil), (32, evidence.surroundings != nil),
    ]
    writer.append(parts.reduce(0) { $0 | ($1.1 ? $1.0 : 0) })
    if !evidence.arguments.isEmpty {
      for place in 0..<6 { writer.append(evidence.arguments.indices.contains(place) ? evidence.arguments[place] : 0) }
    }
    if !evidence.words.isEmpty {
      let words = evidence.words.prefix(Int(UInt8.max))
      writer.append(UInt8(words.count))
      for word in words { writer.append(word) }
    }
    if !evidence.kernelFunction.isEmpty { writer.append(evidence.kernelFunction) }
    if let turns = evidence.turns { writer.append(turns) }
    if let counters = evidence.counters {
      for count in ThreadCounters.all { writer.append(counters[keyPath: count]) }
    }
    guard let surroundings = evidence.surroundings else { return }
    for time in [surroundings.throttled, surroundings.memoryStalled, surroundings.diskStalled] {
      writer.append(time.map(\.wholeNanoseconds) ?? .max)
    }
    writer.append(surroundings.runnableThreads ?? 0)
    writer.append(surroundings.processors ?? 0)
  }

  private static func append(_ lock: HeldLock?, to writer: inout ByteWriter) {
    guard let lock else {
      writer.append(UInt8(0))
      return
    }
    writer.append(lock.kind.code)
    writer.append(lock.address)
    writer.append(lock.holderID)
    writer.append(lock.waiterID)
    writer.append(UInt8(lock.isOrphaned ? 1 : 0) | UInt8(lock.isTimed ? 2 : 0))
  }

  private static func append(_ descriptor: Descriptor?, to writer: inout ByteWriter) {
    guard let descriptor else {
      writer.append(UInt8(0))
      return
    }
    writer.append(1 | UInt8(descriptor.isCut ? 2 : 0) | UInt8(descriptor.isPeersAddress ? 4 : 0))
    writer.append(descriptor.number)
    writer.append(descriptor.target)
    writer.append(bytes: descriptor.address)
    writer.append(descriptor.unreadBytes ?? .max)
    writer.append(descriptor.unsentBytes ?? .max)
  }

  /// The record of `note`, which is about the stall `stallID`.
  package static func record(of note: StallNote, stallID: UInt64) -> [UInt8] {
    record(.note) {
      $0.append(stallID)
      $0.append(note.kind.code)
      $0.append(note.time.wholeNanoseconds)
      $0.append(note.title)
      $0.append(note.text)
    }
  }

  /// The record of how far `stall` has come, and whether it has ended: where there is no room for the record of its end, this
  /// one says it. It has the same length every time.
  package static func record(ofStateOf stall: Stall) -> [UInt8] {
    record(.stallGoesOn) {
      $0.append(stall.id)
      $0.append(stall.duration.wholeNanoseconds)
      $0.append(stall.gap.wholeNanoseconds)
      $0.append(stall.lostSamples)
      $0.append(UInt8(stall.hasEnded ? 1 : 0))
    }
  }

  /// The record that `stall` is over.
  package static func record(ofEndOf stall: Stall) -> [UInt8] {
    record(.stallEnded) {
      $0.append(stall.id)
      $0.append(stall.duration.wholeNanoseconds)
      $0.append(stall.gap.wholeNanoseconds)
      $0.append(stall.lostSamples)
      $0.append(UInt32(clamping: stall.cost.fromOutside))
      $0.append(UInt32(clamping: stall.cost.bySignal))
      $0.append(UInt32(clamping: stall.cost.withoutStack))
      $0.append(stall.cost.longestHandlerTime.wholeNanoseconds)
      $0.append(stall.cost.handlerTime.wholeNanoseconds)
      $0.append(stall.cost.unwindTime.wholeNanoseconds)
    }
  }

  /// The record of another thread, captured when the stall `stallID` was declared. The record of its
  /// ``ThreadSample/thread`` goes before it.
  package static func record(of other: ThreadSample, stallID: UInt64) -> [UInt8] {
    record(.otherThread) {
      $0.append(stallID)
      $0.append(other.thread.id)
      $0.append(other.stack.map { UInt32($0) } ?? UInt32.max)
      $0.append(other.outcome.rawValue)
      $0.append(other.cpuTime.map(\.wholeNanoseconds) ?? UInt64.max)
      $0.append(other.handlerTime.wholeNanoseconds)
      $0.append(other.unwindTime.wholeNanoseconds)
      $0.append(other.activity)
    }
  }

  /// The record that all other threads have been captured for the stall `stallID`, but for so many.
  package static func record(ofOthersLeftOut leftOut: Int, stallID: UInt64) -> [UInt8] {
    record(.othersCaptured) {
      $0.append(stallID)
      $0.append(UInt32(clamping: leftOut))
    }
  }

  /// The record that the address `address`, as it is looked up (``StackFrame/lookupAddress``), is called `frames`.
  package static func record(ofNameOf address: RuntimeAddress, _ frames: [ResolvedFrame]) -> [UInt8] {
    record(.name) { NameRecord.write(address, frames, to: &$0) }
  }

  /// The record that the address `address`, as it is looked up, is called `frames`; nothing where the file that it is in could
  /// not be read, which may be there later. Without full names, which follow from those in the symbol table.
  package static func record(ofLearnedNameOf address: RuntimeAddress, _ frames: [ResolvedFrame]) -> [UInt8] {
    guard !frames.isEmpty, frames.allSatisfy({ $0.missing?.isOfFile ?? true }) else { return [] }
    let kept = frames.map { frame in
      var kept = frame
      kept.fullName = nil
      return kept
    }
    return record(ofNameOf: address, kept)
  }

  /// The record that everything in the file has been looked up that can be, the last one of a file.
  package static func recordOfNamesLookedUp() -> [UInt8] { record(.namesLookedUp) { _ in } }

  /// The length of that record, in bytes.
  package static let namesLookedUpBytes = recordOfNamesLookedUp().count

  /// Whether `bytes`, the last ``namesLookedUpBytes`` of a file, are that record.
  package static func areNamesLookedUp(_ bytes: [UInt8]) -> Bool {
    var reader = ByteReader(bytes[...])
    guard let length = reader.number(UInt32.self), let kind = reader.number(UInt16.self) else { return false }
    return length == 0 && kind == StallFileFormat.RecordKind.namesLookedUp.rawValue && bytes.count == namesLookedUpBytes
  }

  /// Puts the number `tag` of their file into `records`: a disk that went down may leave whole records of another file, that was
  /// removed long ago, in a new one.
  package static func tag(_ records: inout [UInt8], _ tag: UInt16) {
    var begin = 0
    while true {
      var head = ByteReader(records[begin...])
      let length = Int(head.number(UInt32.self) ?? 0)
      let end = begin + StallFileFormat.recordHeadBytes + length
      guard end + StallFileFormat.recordTailBytes <= records.count else { return }
      var number = ByteWriter()
      number.append(tag)
      records.replaceSubrange(begin + 6..<begin + 8, with: number.bytes)
      var tail = ByteWriter()
      tail.append(CRC32.checksum(records[begin..<end]))
      records.replaceSubrange(end..<end + StallFileFormat.recordTailBytes, with: tail.bytes)
      begin = end + StallFileFormat.recordTailBytes
    }
  }

  /// A whole file with all of `recording`.
  package static func file(of recording: Recording) -> [UInt8] {
    var bytes = header()
    if let process = recording.process { bytes += record(of: process) }
    for module in recording.modules { bytes += record(of: module) }
    for (index, stack) in recording.stacks.enumerated() { bytes += record(of: stack, index: index) }
    for (address, frames) in recording.names.sorted(by: { $0.key < $1.key }) where !frames.isEmpty {
      bytes += record(ofNameOf: address, frames)
    }
    for stall in recording.stalls {
      bytes += record(of: stall.thread)
      bytes += record(ofBeginOf: stall)
      for sample in stall.samples { bytes += record(of: sample, stallID: stall.id) }
      for holder in stall.holders {
        bytes += record(of: holder.thread)
        bytes += record(of: holder, stallID: stall.id)
      }
      for note in stall.notes { bytes += record(of: note, stallID: stall.id) }
      if let others = stall.others {
        for other in others.threads {
          bytes += record(of: other.thread)
          bytes += record(of: other, stallID: stall.id)
        }
        if others.isComplete { bytes += record(ofOthersLeftOut: others.leftOut, stallID: stall.id) }
      }
      bytes += stall.hasEnded ? record(ofEndOf: stall) : record(ofStateOf: stall)
    }
    return bytes
  }

  private static func record(_ kind: StallFileFormat.RecordKind, _ payload: (inout ByteWriter) -> Void) -> [UInt8] {
    var content = ByteWriter()
    payload(&content)
    var record = ByteWriter()
    record.append(UInt32(content.bytes.count))
    record.append(kind.rawValue)
    record.append(UInt16(0))
    var bytes = record.bytes + content.bytes
    var tail = ByteWriter()
    tail.append(CRC32.checksum(bytes[...]))
    bytes += tail.bytes
    return bytes
  }
}

extension ByteWriter {
  /// Appends what a thread was doing: its code, and the number of the system call, −1 if there is none.
  fileprivate mutating func append(_ activity: ThreadActivity) {
    append(activity.code)
    append(activity.call)
  }
}

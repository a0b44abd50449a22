/// Creates the bytes of a `.stall` file record by record, so the file can grow during the stall.
///
/// The order must be: the header; the process; modules, threads and stacks before records that refer to them; the start
/// of a stall before its samples; the end of the stall.
package enum StallFileWriter {
  package static func header() -> [UInt8] {
    var writer = ByteWriter()
    for byte in StallFileFormat.magic { writer.append(byte) }
    writer.append(StallFileFormat.majorVersion)
    writer.append(StallFileFormat.minorVersion)
    writer.append(CRC32.checksum(writer.bytes[...]))
    return writer.bytes
  }

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

  package static func record(of thread: ObservedThread) -> [UInt8] {
    record(.thread) {
      $0.append(thread.id)
      $0.append(thread.name)
    }
  }

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

  /// Returns the record of the start of `stall`, with all data except samples and end.
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

  package static func record(of sample: Sample, stallID: UInt64) -> [UInt8] {
    record(.sample) {
      $0.append(stallID)
      append(sample, to: &$0)
    }
  }

  /// Returns the record of `holder` for the stall `stallID`. The record of ``HolderSample/thread`` must come first.
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

  private static func append(_ evidence: SampleEvidence, to writer: inout ByteWriter) {
    let parts: [(UInt8, Bool)] = [
      (1, !evidence.arguments.isEmpty), (2, !evidence.words.isEmpty), (4, !evidence.kernelFunction.isEmpty),
      (8, evidence.timeslices != nil), (16, evidence.counters != nil), (32, evidence.surroundings != nil),
      (64, evidence.surroundings.map { $0.refaultedBytes != nil || $0.memoryLimitHits != nil } ?? false),
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
    if let timeslices = evidence.timeslices { writer.append(timeslices) }
    if let counters = evidence.counters {
      for count in ThreadCounters.all { writer.append(counters[keyPath: count]) }
    }
    guard let surroundings = evidence.surroundings else { return }
    for time in [surroundings.throttled, surroundings.memoryStalled, surroundings.diskStalled] {
      writer.append(time.map(\.wholeNanoseconds) ?? .max)
    }
    writer.append(surroundings.runnableThreads ?? 0)
    writer.append(surroundings.cpuCount ?? 0)
    guard surroundings.refaultedBytes != nil || surroundings.memoryLimitHits != nil else { return }
    writer.append(surroundings.refaultedBytes ?? .max)
    writer.append(surroundings.memoryLimitHits ?? .max)
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

  package static func record(of note: StallNote, stallID: UInt64) -> [UInt8] {
    record(.note) {
      $0.append(stallID)
      $0.append(note.kind.code)
      $0.append(note.time.wholeNanoseconds)
      $0.append(note.title)
      $0.append(note.text)
    }
  }

  /// Returns the record of the progress of `stall`, with a constant length. Contains whether the stall has ended.
  /// Replaces the end record if space is short.
  package static func record(ofStateOf stall: Stall) -> [UInt8] {
    record(.stallGoesOn) {
      $0.append(stall.id)
      $0.append(stall.duration.wholeNanoseconds)
      $0.append(stall.gap.wholeNanoseconds)
      $0.append(stall.lostSamples)
      $0.append(UInt8(stall.hasEnded ? 1 : 0))
    }
  }

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

  /// Returns the record of another thread, captured when the stall `stallID` was declared. The record of
  /// ``ThreadSample/thread`` must come first.
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

  /// Returns the record that marks a complete capture of all other threads for the stall `stallID`. `leftOut` is the
  /// number of threads not captured.
  package static func record(ofOthersLeftOut leftOut: Int, stallID: UInt64) -> [UInt8] {
    record(.othersCaptured) {
      $0.append(stallID)
      $0.append(UInt32(clamping: leftOut))
    }
  }

  /// Returns the record of the symbolized `frames` at the lookup address `address` (``StackFrame/lookupAddress``).
  package static func record(ofNameOf address: RuntimeAddress, _ frames: [ResolvedFrame]) -> [UInt8] {
    record(.name) { NameRecord.write(address, frames, to: &$0) }
  }

  /// Returns the record of the symbolized `frames` at the lookup address `address`. Omits full names, because the
  /// symbol names imply them. Returns an empty array if the module's file could not be read, because the file might be
  /// available later.
  package static func record(ofLearnedNameOf address: RuntimeAddress, _ frames: [ResolvedFrame]) -> [UInt8] {
    guard !frames.isEmpty, frames.allSatisfy({ $0.missing?.isOfFile ?? true }) else { return [] }
    let kept = frames.map { frame in
      var kept = frame
      kept.fullName = nil
      return kept
    }
    return record(ofNameOf: address, kept)
  }

  /// Returns the record that marks all possible lookups as done. Must be the last record of a file.
  package static func recordOfNamesLookedUp() -> [UInt8] { record(.namesLookedUp) { _ in } }

  package static let namesLookedUpBytes = recordOfNamesLookedUp().count

  package static func areNamesLookedUp(_ bytes: [UInt8]) -> Bool {
    var reader = ByteReader(bytes[...])
    guard let length: UInt32 = try? reader.number(), let kind: UInt16 = try? reader.number() else { return false }
    return length == 0 && kind == StallFileFormat.RecordKind.namesLookedUp.rawValue && bytes.count == namesLookedUpBytes
  }

  /// Writes the file's number `tag` into `records`. After a disk failure, a new file can contain complete records of a
  /// deleted file, which have another number.
  package static func tag(_ records: inout [UInt8], _ tag: UInt16) {
    var begin = 0
    while true {
      var head = ByteReader(records[begin...])
      let length = Int((try? head.number(UInt32.self)) ?? 0)
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

  package static func file(of recording: Recording) -> [UInt8] {
    var bytes = header()
    if let process = recording.process { bytes += record(of: process) }
    for module in recording.modules { bytes += record(of: module) }
    for (index, stack) in recording.stacks.enumerated() { bytes += record(of: stack, index: index) }
    for (address, frames) in recording.names.ordered(by: { $0.key < $1.key }) where !frames.isEmpty {
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
  fileprivate mutating func append(_ activity: ThreadActivity) {
    append(activity.code)
    append(activity.call)
  }
}

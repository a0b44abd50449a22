import CulpritStallRecord
import Glibc

/// A stall that the watchdog noted in the run's file (observer_hang_notes.h) because the recorder had not written it.
package struct NotedHang: Hashable, Sendable {
  package struct SampledStack: Hashable, Sendable {
    package var samples: Int
    package var stack: Stack
  }

  /// Identifies the stall: the source's slot, and the start of the work on the watchdog's clock.
  var slot: UInt32
  var item: UInt64
  package var source: WatchedSource
  package var threadID: Int32
  package var threshold: Duration
  package var began: WallTime
  /// The age of the work at the last note.
  package var age: Duration
  package var stacks: [SampledStack] = []

  init?(_ value: Substring) {
    let parts = value.split(separator: " ", maxSplits: 7, omittingEmptySubsequences: false)
    let numbers = parts.prefix(7).compactMap { UInt64($0) }
    guard parts.count == 8, numbers.count == 7, let slot = UInt32(exactly: numbers[0]) else { return nil }
    (self.slot, item) = (slot, numbers[1])
    age = .nanoseconds(Int64(clamping: numbers[3]))
    began = WallTime(nanosecondsSince1970: numbers[2] - min(numbers[2], numbers[3]))
    threshold = .nanoseconds(Int64(clamping: numbers[4]))
    source = WatchedSource(kind: SourceKind(code: UInt8(clamping: numbers[5])), name: String(parts[7]))
    threadID = Int32(clamping: numbers[6])
  }

  /// Whether a line with the values `parts` belongs to this hang.
  func isMeant(by parts: some Collection<Substring>) -> Bool {
    let numbers = parts.prefix(2).map { UInt64($0) }
    return numbers == [UInt64(slot), item]
  }

  /// Whether the hang is a note of `stall`. ``began`` is approximate, because the age excludes exempt time.
  package func isNote(of stall: Stall) -> Bool {
    let distance = Int64(clamping: began.nanosecondsSince1970) - Int64(clamping: stall.began.nanosecondsSince1970)
    return stall.source == source && abs(distance) < 2_000_000_000
  }

  /// `parts` are a line's values without the first two.
  mutating func add(stack parts: ArraySlice<Substring>) {
    let frames = parts.dropFirst(2).compactMap { part -> StackFrame? in
      let words = part.split(separator: ":")
      guard words.count == 2, let address = UInt64(words[0], radix: 16), let code = UInt8(words[1], radix: 16),
        let kind = FrameKind(rawValue: code)
      else { return nil }
      return StackFrame(RuntimeAddress(address), kind)
    }
    guard let samples = parts.first.flatMap({ Int($0) }), samples > 0, !frames.isEmpty,
      let end = parts.dropFirst().first.flatMap({ UInt8($0) })
    else { return }
    stacks.append(
      SampledStack(
        samples: min(samples, 1 << 20),
        stack: Stack(frames: frames, end: StackEnd(rawValue: end) ?? .failed)
      )
    )
  }
}

extension RunRecord {
  package func lines(of modules: [Module]) -> String {
    modules.map { module in
      let mappings = module.mappings.map { mapping in
        [mapping.start.value, mapping.end.value, mapping.fileOffset].map { String($0, radix: 16) }.joined(
          separator: "-"
        )
      }
      let buildID = module.buildID.isEmpty ? "-" : hexadecimal(module.buildID)
      let bias = module.bias.map { String($0, radix: 16) } ?? "-"
      return checked("module \(buildID) \(bias) \(mappings.joined(separator: ",")) \(Self.line(module.path))")
    }
    .joined()
  }

  static func module(_ value: Substring) -> Module? {
    let parts = value.split(separator: " ", maxSplits: 3)
    guard parts.count == 4 else { return nil }
    let mappings = parts[2].split(separator: ",")
      .compactMap { text -> Module.Mapping? in
        let numbers = text.split(separator: "-").compactMap { UInt64($0, radix: 16) }
        guard numbers.count == 3 else { return nil }
        let (start, end) = (RuntimeAddress(numbers[0]), RuntimeAddress(numbers[1]))
        return Module.Mapping(start: start, end: end, fileOffset: numbers[2])
      }
    let digits = Array(parts[0])
    let buildID = stride(from: 0, to: digits.count - 1, by: 2).compactMap {
      UInt8(String(digits[$0...$0 + 1]), radix: 16)
    }
    return Module(
      path: String(parts[3]),
      buildID: buildID,
      mappings: mappings,
      bias: UInt64(parts[1], radix: 16)
    )
  }

  /// Stall files with the noted stalls, in the recorder's format.
  package var filesOfNotedHangs: [(name: String, bytes: [UInt8])] {
    let process = ObservedProcess(
      id: identity.process,
      executable: executable,
      architecture: architecture(),
      observerVersion: "",
      watchedSince: since
    )
    return hangs.enumerated()
      .map { index, hang in
        // IDs of noted stalls are larger than the recorder's IDs.
        let id = UInt64(1) << 32 + UInt64(index)
        let time = max(hang.began.nanosecondsSince1970, since.nanosecondsSince1970)
        let name = "culprit-\(WallTime(nanosecondsSince1970: time).fileNamePart)-\(process.id)-\(id).stall"
        return (name, hang.file(id: id, of: process, modules))
      }
  }

  private func architecture() -> String {
    var name = utsname()
    uname(&name)
    return withUnsafeBytes(of: &name.machine) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
  }
}

extension NotedHang {
  fileprivate func file(id: UInt64, of process: ObservedProcess, _ modules: [Module]) -> [UInt8] {
    let stall = Stall(
      id: id,
      source: source,
      thread: ObservedThread(id: threadID, name: ""),
      threshold: threshold,
      began: began,
      duration: age
    )
    var records = StallFileWriter.record(of: process) + modules.flatMap { StallFileWriter.record(of: $0) }
    records += StallFileWriter.record(of: stall.thread) + StallFileWriter.record(ofBeginOf: stall)
    records += StallFileWriter.record(ofStateOf: stall)
    let count = stacks.reduce(0) { $0 + $1.samples }
    var number = 0
    for (index, sampled) in stacks.enumerated() {
      records += StallFileWriter.record(of: sampled.stack, index: index)
      for _ in 0..<sampled.samples {
        number += 1
        // The sample times are unknown, so the samples are spread evenly.
        let sample = Sample(age: age / count * number, stack: index, outcome: .captured, cpuTime: nil)
        records += StallFileWriter.record(of: sample, stallID: id)
      }
    }
    StallFileWriter.tag(&records, UInt16.random(in: 1...UInt16.max))
    return StallFileWriter.header() + records
  }
}

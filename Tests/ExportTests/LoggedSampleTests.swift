import CulpritStallRecord
import SampleRecordings
import Synchronization
import Testing

@testable import CulpritBlame
@testable import CulpritExports

private final class StoreInMemory: OverflowStore {
  private let pieces = Mutex<[[UInt8]]>([])

  var count: Int { pieces.withLock { $0.count } }

  func append(_ bytes: UnsafeRawBufferPointer) -> Int? {
    let piece = Array(bytes)
    return pieces.withLock { pieces in
      pieces.append(piece)
      return pieces.count - 1
    }
  }

  func read(_ place: Int, into bytes: UnsafeMutableRawBufferPointer) {
    bytes.copyBytes(from: pieces.withLock { $0[place] })
  }
}

/// Exports of files with only some samples in memory.
@Suite struct LoggedSampleTests {
  /// A recording with several thousand samples: the samples of `seed`, repeated.
  private func long(_ seed: UInt64) -> Recording {
    var recording = RandomRecording(seed: seed).recording
    let samples = recording.stalls[0].samples
    let length = (samples.map(\.age).max() ?? .zero) + .milliseconds(7)
    recording.stalls[0].samples = (0..<(6000 / max(1, samples.count)))
      .flatMap { turn in
        samples.map { sample in
          var sample = sample
          sample.age += length * turn
          sample.label = turn % 50 == 0 ? "" : "turn \(turn % 7)"
          return sample
        }
      }
    return recording
  }

  private func export(_ recording: Recording, _ logs: [SampleLog]?, _ store: StoreInMemory?, _ format: ExportFormat)
    throws -> [UInt8]
  {
    var bytes: [UInt8] = []
    var exporter = Exporter(format, version: "0.1.0") { bytes += $0 }
    try exporter.add(recording, logs: logs, store: store) { names($0, in: recording) }
    try exporter.finish()
    return bytes
  }

  /// Exports have every sample, although the recording in memory has few.
  @Test(arguments: [1, 5] as [UInt64], [.collapsed, .pprof] as [ExportFormat])
  func exportsEverySample(_ seed: UInt64, _ format: ExportFormat) throws {
    let whole = long(seed)
    let bytes = StallFileWriter.file(of: whole)
    let store = StoreInMemory()
    var hasBeenRead = false
    let file = try StallFile(StallFile.Extent(samples: 1, logsSamples: true, store: store)) {
      defer { hasBeenRead = true }
      return hasBeenRead ? [] : bytes
    }
    #expect(file.recording.stalls[0].samples.count < 10)
    #expect(file.logs[0].count == whole.stalls[0].samples.count)
    let expected = try export(try StallFile(bytes: bytes).recording, nil, nil, format)
    #expect(try export(file.recording, file.logs, store, format) == expected)
    #expect(store.count > 1)
  }

  /// An OpenTelemetry profile is built in memory, so many samples become several consecutive profiles.
  @Test func splitsManySamplesIntoProfiles() throws {
    var recording = SampleRecordings.everyday()
    let stall = recording.stalls[0]
    let samples = stall.samples
    recording.stalls[0].samples = (0..<70_000)
      .map { number in
        var sample = samples[number % samples.count]
        sample.age = stall.duration * (Double(number + 1) / 70_001)
        return sample
      }
    let profiles = try OTLP(try export(recording, nil, nil, .otlp)).profiles
    #expect(profiles.count == 3)
    #expect(profiles.allSatisfy { $0.samples.reduce(0) { $0 + $1.values.count } <= 32 << 10 })
    let attributes = Set(profiles.map { $0.attributes }), resources = Set(profiles.map { $0.resource })
    #expect(attributes.count == 1 && resources.count == 1)
    #expect(profiles.first?.began == stall.began.nanosecondsSince1970)
    for (one, next) in zip(profiles, profiles.dropFirst()) { #expect(one.began + one.duration == next.began) }
    let duration = profiles.reduce(0) { $0 + $1.duration }
    #expect(Duration.nanoseconds(Int64(duration)) == stall.duration)
    let values = profiles.flatMap { $0.samples.flatMap { $0.values } }
    #expect(values.reduce(0, +) == duration)
    for profile in profiles {
      let times = profile.samples.flatMap { $0.times }
      #expect(times.allSatisfy { $0 >= profile.began && $0 < profile.began + profile.duration })
    }
  }

  /// Exports complete truncated stacks like the verdict.
  @Test(arguments: [1, 2, 3, 5, 8, 13, 21] as [UInt64]) func completesStacksLikeVerdict(_ seed: UInt64) {
    let recording = long(seed)
    let stall = recording.stalls[0]
    let resolve = { (frame: StackFrame) in names(frame, in: recording) }
    let observations = Observations(stall: stall, stacks: recording.stacks, resolve: resolve)
    let stacks = ProfileStacks(recording, resolve: resolve)
    let profile = StallProfile(stall, stacks)
    let segments = profile.tracks.flatMap { $0.segments.filter { $0.sample != nil } }
    #expect(segments.count == stall.samples.count)
    for (segment, place) in zip(segments, observations.places) {
      guard let place else { continue }
      let frames = stacks.stacks[segment.stack].filter { stacks.frames[$0].captured != nil }
      #expect(frames.map { stacks.frames[$0].resolved } == observations.stacks[place].stack.frames.map(\.resolved))
    }
  }
}

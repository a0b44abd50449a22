import CulpritStallRecord
import Synchronization
import Testing

@testable import CulpritBlame
@testable import CulpritExports

/// A store in memory.
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

/// Exports of files of which only some samples are in memory.
@Suite struct LoggedSampleTests {
  /// A recording with several thousand samples of each thread: the ones of `seed` over and over.
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

  /// They have every sample, though the recording has few of them.
  @Test(arguments: [1, 2, 3, 5, 8] as [UInt64], [.collapsed, .speedscope, .pprof] as [ExportFormat])
  func everySampleIsInThem(_ seed: UInt64, _ format: ExportFormat) throws {
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

  /// Stacks are completed as those of the verdict are, which has all of them at once.
  @Test(arguments: [1, 2, 3, 5, 8, 13, 21] as [UInt64]) func stacksAreThoseOfTheVerdict(_ seed: UInt64) {
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
      #expect(
        frames.map { stacks.frames[$0].resolved } == observations.stacks[place].stack.frames.map(\.resolved)
      )
    }
  }
}

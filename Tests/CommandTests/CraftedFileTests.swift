import CulpritStallRecord
import Foundation
import SampleRecordings
import TestSupport
import Testing

@Suite(.ownThread) struct CraftedFileTests {
  @TemporaryDirectory private var directory: String

  private static let commands =
    ["report", "top", "info", "report --format=json", "top --format=json", "diff"]
    + ["html", "collapsed", "pprof", "firefox", "chrome", "otlp"].map { "export --format=\($0)" }

  /// Runs every command on files with `recording` from three processes. All must succeed.
  private func read(_ recording: Recording) throws {
    let paths = try (Int32(1)...3)
      .map { number in
        var recording = recording
        recording.process?.id = number
        let path = "\(directory)/\(number).stall"
        try Data(StallFileWriter.file(of: recording)).write(to: URL(fileURLWithPath: path))
        return path
      }
    for command in Self.commands {
      let words = command.split(separator: " ").map(String.init)
      let child = try ChildProcess(
        ChildProcess.built("culprit"),
        words + (command == "diff" ? Array(paths.prefix(2)) : paths),
        environment: ["SWIFT_BACKTRACE": "enable=no"]
      )
      #expect(child.hasExited && child.status == 0 && !child.output.isEmpty, "\(command): \(child.errors)")
    }
  }

  @Test func namesFullyInlinedFrames() throws {
    var recording = SampleRecordings.everyday()
    for address in recording.names.keys {
      let frame = ResolvedFrame(function: nil, module: "", address: .runtime(address), isInlined: true)
      recording.names[address] = [frame, frame]
    }
    try read(recording)
  }

  @Test func sumsMaximumDurations() throws {
    let longest = Duration(wholeNanoseconds: .max)
    var recording = SampleRecordings.everyday()
    for index in recording.stalls.indices {
      recording.stalls[index].began = WallTime(nanosecondsSince1970: .max)
      recording.stalls[index].duration = longest
      recording.stalls[index].threshold = longest
      recording.stalls[index].gap = longest
      recording.stalls[index].samples[0].cpuTime = longest
      recording.stalls[index].samples[5].age = longest
      recording.stalls[index].samples[6].runDelay = longest
      let count = StallCount(
        since: WallTime(nanosecondsSince1970: 0),
        all: .max,
        atSamePlace: .max,
        unrecorded: .max,
        unrecordedTime: longest
      )
      recording.stalls[index].notes += [count.note, StallNote(.hang, time: longest)]
    }
    try read(recording)
  }
}

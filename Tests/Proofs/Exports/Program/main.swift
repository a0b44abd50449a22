import CulpritOptions
import CulpritStallRecord
import Glibc
import SampleRecordings

// stall-samples: writes .stall files for tools/prove exports to standard output.
//
//   $ stall-samples everyday >everyday.stall
//   $ stall-samples large 1000000 2000 >large.stall       # samples, distinct stacks
//   $ stall-samples perf 1000000 2000 >large.txt          # these samples in the format of perf-script(1)

let output = CommandOutput(command: "stall-samples")
let words = CommandLine.arguments.dropFirst()
let numbers = words.dropFirst().compactMap { Int($0) }
var recording = Recording(process: nil)
switch (words.first, numbers.count) {
case ("everyday", 0): recording = SampleRecordings.everyday()
case ("workers", 0): recording = SampleRecordings.workers()
case ("hostile", 0): recording = SampleRecordings.hostile()
case ("waits", 0): recording = SampleRecordings.waits(isDeadlock: false)
case ("deadlock", 0): recording = SampleRecordings.waits(isDeadlock: true)
case ("large", 2):
  SampleRecordings.largeFile(samples: numbers[0], stacks: numbers[1]) { output.print(bytes: $0) }
  exit(0)
case ("perf", 2): recording = SampleRecordings.large(samples: numbers[0], stacks: numbers[1])
default:
  output.usage(
    UsageError("give one of: everyday, workers, hostile, waits, deadlock, large SAMPLES STACKS, perf SAMPLES STACKS")
  )
}
if words.first == "perf" {
  printAsPerf(recording)
} else {
  output.print(bytes: StallFileWriter.file(of: recording))
}

/// Prints the samples of `recording` as perf-script(1) does.
func printAsPerf(_ recording: Recording) {
  let stacks = recording.stacks.map { stack in
    stack.frames.flatMap { frame in
      (recording.names[frame.lookupAddress] ?? []).map {
        "\t\(String(frame.address.value, radix: 16)) \($0.function ?? "?") (/shop)\n"
      }
    }.joined() + "\n"
  }
  var text = ""
  for stall in recording.stalls {
    for sample in stall.samples {
      guard let stack = sample.stack else { continue }
      let microseconds = sample.age / .microseconds(1)
      text += "shop \(stall.thread.id) \(microseconds / 1e6): 1 cpu-clock: \n" + stacks[stack]
      guard text.utf8.count > 4 << 20 else { continue }
      output.print(bytes: Array(text.utf8))
      text = ""
    }
  }
  output.print(bytes: Array(text.utf8))
}

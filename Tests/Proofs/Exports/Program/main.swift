import CulpritOptions
import CulpritStallRecord
import Glibc
import SampleRecordings

// stall-samples: writes .stall files for tools/check-exports to standard output.
//
//   $ stall-samples everyday >everyday.stall
//   $ stall-samples large 1000000 2000 >large.stall       # samples, distinct stacks

let output = CommandOutput(command: "stall-samples")
let words = CommandLine.arguments.dropFirst()
let numbers = words.dropFirst().compactMap { Int($0) }
let recording: Recording
switch (words.first, numbers.count) {
case ("everyday", 0): recording = SampleRecordings.everyday()
case ("workers", 0): recording = SampleRecordings.workers()
case ("hostile", 0): recording = SampleRecordings.hostile()
case ("large", 2): recording = SampleRecordings.large(samples: numbers[0], stacks: numbers[1])
default: output.usage(UsageError("give one of: everyday, workers, hostile, large SAMPLES STACKS"))
}
output.print(bytes: StallFileWriter.file(of: recording))

import CulpritReports
import CulpritStallRecord
import SampleRecordings

/// The report of a stall of one second, with a sample every 20 ms.
///
/// Each of `turns` has the functions below `main`, outermost first and separated by spaces, and a number of samples.
/// Without functions, the samples have no stack. All samples but the last have the label.
func madeUpReport(
  _ turns: [(functions: String, samples: Int)],
  _ activity: ThreadActivity = .running,
  label: String = "",
  hasEnded: Bool = true
) -> StallReport {
  var names: [String] = []
  var stacks: [Stack] = []
  var samples: [Sample] = []
  for (functions, count) in turns {
    let frames = (["main"] + functions.split(separator: " ").map(String.init)).reversed()
      .map { name -> StackFrame in
        if !names.contains(name) { names.append(name) }
        return .programCounter(RuntimeAddress(0x1000 * UInt64((names.firstIndex(of: name) ?? 0) + 1)))
      }
    stacks.append(Stack(frames: frames, end: .outermost))
    for _ in 0..<count {
      let age = Duration.milliseconds(20 * (samples.count + 1))
      samples.append(
        Sample(
          age: age,
          stack: functions.isEmpty ? nil : stacks.count - 1,
          outcome: functions.isEmpty ? .noAnswer : .captured,
          cpuTime: activity == .running ? age : .zero,
          activity: activity,
          label: samples.count < 49 ? label : ""
        )
      )
    }
  }
  let process = ObservedProcess(1, "/opt/shop/shop", since: 1)
  let stall = Stall(
    "trial 1",
    thread: (1, "shop"),
    threshold: .milliseconds(20),
    began: 1_795_170_231_204_000_000,
    samples: samples,
    duration: .seconds(1),
    hasEnded: hasEnded
  )
  let builder = ReportBuilder(Recording(process: process, stacks: stacks, stalls: [stall])) { frame in
    let name = names[Int(frame.address.value / 0x1000) - 1]
    return [
      ResolvedFrame(
        function: name,
        rawName: name,
        module: name.hasPrefix("Squeezer") ? "/usr/lib/libsqueezer.so" : process.executable,
        start: FileAddress(frame.address.value),
        address: .file(FileAddress(frame.address.value)),
        location: SourceLocation(file: "/src/shop/Shop.swift", line: 7)
      )
    ]
  }
  return builder.report(of: stall)
}

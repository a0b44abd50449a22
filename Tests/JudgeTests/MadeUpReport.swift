import CulpritReports
import CulpritStallRecord
import SampleRecordings

/// The report of a stall of one second, with a sample every 20 ms.
///
/// `turns` has functions below `main` that were on the stack, outermost first and separated by spaces, and for how many
/// samples; without functions the samples have no stack. All samples but the last have the label.
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
      let (stack, used) = (functions.isEmpty ? nil : stacks.count - 1, activity == .running ? age : .zero)
      samples.append(Sample(age, stack, activity, used: used, label: samples.count < 49 ? label : ""))
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
    let module = name.hasPrefix("Squeezer") ? "/usr/lib/libsqueezer.so" : process.executable
    let (address, place) = (frame.address.value, SourceLocation(file: "/src/shop/Shop.swift", line: 7))
    return [ResolvedFrame(name, raw: name, in: module, start: address, at: address, place)]
  }
  return builder.report(of: stall)
}

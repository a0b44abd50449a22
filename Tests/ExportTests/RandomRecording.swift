import CulpritStallRecord
import SampleRecordings
import SplitMix

/// A random stall from a seed, with one or more threads, truncated stacks, samples without stacks, and missing samples.
struct RandomRecording {
  let recording: Recording

  init(seed: UInt64) {
    var random = SplitMix(seed)
    func number(_ limit: Int) -> Int { Int.random(in: 0..<limit, using: &random) }
    var names: [RuntimeAddress: [ResolvedFrame]] = [:]
    for function in 0..<12 {
      let address = FileAddress(UInt64(function) * 16)
      func frame(_ name: String, isInlined: Bool) -> ResolvedFrame {
        ResolvedFrame(function: name, module: "/opt/a", start: address, address: .file(address), isInlined: isInlined)
      }
      let outer = frame("f\(function)", isInlined: false)
      names[RuntimeAddress(0x1000 + address.value)] =
        function % 4 == 0 ? [frame("inlined\(function)", isInlined: true), outer] : [outer]
    }
    let stacks = (0..<8)
      .map { stack -> Stack in
        let frames = (0...number(6))
          .map { place -> StackFrame in
            let address = RuntimeAddress(0x1000 + UInt64(number(12)) * 16)
            return place == 0 ? .programCounter(address) : .returnAddress(RuntimeAddress(address.value + 1))
          }
        return Stack(frames: stack == 7 ? [] : frames, end: number(3) == 0 ? .copyLimit : .outermost)
      }
    let threads = number(3) == 0 ? number(3) + 2 : 1
    let unwatched = Duration.milliseconds(number(3) == 0 ? number(200) : 0)
    var samples: [Sample] = []
    for thread in 0..<threads {
      var age = unwatched + .microseconds(number(300_000))
      for _ in 0..<number(60) {
        age += .nanoseconds(number(number(20) == 0 ? 900_000_000 : 40_000_000))
        let stack = number(10) == 0 ? nil : number(stacks.count)
        let activity: ThreadActivity = number(2) == 0 ? .running : .inSystemCall(Int32(number(300)))
        samples.append(Sample(age, stack, activity, threadID: threads == 1 ? nil : Int32(100 + thread)))
      }
    }
    var stall = Stall(
      "random",
      id: seed,
      thread: (100, "random"),
      threshold: .milliseconds(500),
      began: WallTime(nanosecondsSince1970: 1_763_637_800_000_000_000 + UInt64(number(1_000_000_000))),
      samples: samples,
      duration: unwatched + .nanoseconds(number(3_000_000_000)),
      hasEnded: number(2) == 0,
      lostSamples: number(3) == 0 ? 5 : 0
    )
    if unwatched > .zero { stall.notes.append(StallNote(.unwatched, time: unwatched)) }
    recording = Recording(
      process: ObservedProcess(100, "/opt/a"),
      modules: [Module("/opt/a", [1, 2], at: 0x1000..<0x2000)],
      stacks: stacks,
      stalls: [stall],
      names: names
    )
  }
}

import CulpritStallRecord
import SampleRecordings

@testable import CulpritBlame

/// Makes stalls from function names. Prefixes: "c." system, "culprit." Culprit, "d." a function of the dependency
/// "retries"; other names belong to the application.
struct Synthetic {
  private(set) var stacks: [Stack] = []
  private var names: [UInt64: String] = [:]
  private var addresses: [String: UInt64] = [:]

  /// Returns the fixed address of `name`.
  private mutating func address(_ name: String) -> UInt64 {
    if let address = addresses[name] { return address }
    let address = UInt64(addresses.count + 1) * 0x1000
    addresses[name] = address
    names[address] = name
    return address
  }

  /// A stall with the stacks `timeline`, outermost function first, `interval` apart. An empty stack is a failed
  /// capture.
  mutating func stall(
    _ timeline: [[String]],
    interval: Duration = .milliseconds(100),
    lasting duration: Duration? = nil,
    cpu: [Duration]? = nil
  ) -> Stall {
    var samples: [Sample] = []
    for (number, names) in timeline.enumerated() {
      let frames = names.reversed().enumerated()
        .map { place, name -> StackFrame in
          let address = RuntimeAddress(self.address(name))
          return place == 0 ? .programCounter(address) : .returnAddress(RuntimeAddress(address.value + 1))
        }
      if !frames.isEmpty { stacks.append(Stack(frames: frames, end: .outermost)) }
      let stack = frames.isEmpty ? nil : stacks.count - 1
      samples.append(Sample(interval * number + interval / 2, stack, used: cpu?[number]))
    }
    return Stall(
      "test",
      thread: (1, "main"),
      samples: samples,
      duration: duration ?? interval * timeline.count,
      hasEnded: true
    )
  }

  /// Makes stack `number` the stack of a task that another function awaits.
  mutating func addCaller(to number: Int) {
    stacks[number].frames += [
      StackFrame(RuntimeAddress(address("awaiter")), .asyncCaller), StackFrame(RuntimeAddress(0xfff0), .taskStart),
    ]
  }

  mutating func cut(_ number: Int) { stacks[number].end = .noUnwindInformation }

  func resolve(_ frame: StackFrame) -> [ResolvedFrame] {
    let name = names[frame.lookupAddress.value] ?? "?"
    let isSystem = name.hasPrefix("c.")
    var resolved = ResolvedFrame(
      function: name,
      rawName: isSystem ? String(name.dropFirst(2)) : name,
      module: isSystem ? "/usr/lib/x86_64-linux-gnu/libc.so.6" : "/opt/shop/shop",
      start: FileAddress(frame.lookupAddress.value),
      address: .file(FileAddress(frame.lookupAddress.value))
    )
    if name.hasPrefix("culprit.") { resolved.swiftModule = "Culprit" }
    if name.hasPrefix("d.") {
      resolved.location = SourceLocation(file: "/opt/shop/.build/checkouts/retries/Sources/\(name).swift", line: 7)
    }
    return [resolved]
  }

  func blame(_ stall: Stall, architecture: String = "") -> StallReport {
    StallReport(of: stall, in: Recording(process: nil, stacks: stacks), architecture: architecture, resolve: resolve)
  }
}

extension StallReport {
  var culpritName: String? { culprit?.frame.function }
  var contenderNames: [String?] { contenders.map(\.frame.function) }
}

extension StallReport.Finding {
  /// The symbolized frame of the function. Decoded reports have none.
  var frame: ResolvedFrame { function.resolved }
}

extension StallReport.Node {
  /// The symbolized frame of the function. Decoded reports have none.
  var frame: ResolvedFrame { function.resolved }
}

extension StallReport.Function {
  /// The symbolized frame. Decoded reports have none.
  var resolved: ResolvedFrame { frame ?? ResolvedFrame(function: nil, module: "", address: .file(FileAddress(0))) }
  /// The readable name.
  var function: String? { resolved.function }
}

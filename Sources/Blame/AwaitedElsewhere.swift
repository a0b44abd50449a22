import CulpritStallRecord

/// Detects stacks of suspended tasks whose work continues elsewhere: in a callback, on a queue, or in another library.
enum AwaitedElsewhere {
  /// Whether no function of `frames` (outermost first) is to blame for the wait of a suspended task.
  static func has(_ frames: [WeightedStack.Frame]) -> Bool {
    guard !isAsleep(frames) else { return false }
    guard let innermost = frames.lastIndex(where: \.isApplication) else { return true }
    guard let opener = frames.lastIndex(where: isOpener) else { return false }
    guard innermost > opener else { return true }
    // The innermost frame is the closure of the section. A witness might replace the function around the closure.
    let parts = nameParts(frames[innermost])
    let isFirst = frames[(opener + 1)...].first { $0.owner != .system }?.identity == frames[innermost].identity
    if isFirst, parts.first?.hasPrefix("closure #") ?? false { return true }
    // The innermost frame is a closure passed to a function that opens a section.
    return frames[..<opener].contains { $0.owner != .system && nameParts($0).last == parts.last }
  }

  static func isAsleep(_ frames: [WeightedStack.Frame]) -> Bool {
    frames.reversed().prefix { !$0.isApplication }
      .contains { $0.owner == .system && ($0.resolved.function?.contains("sleep(") ?? false) }
  }

  private static func isOpener(_ frame: WeightedStack.Frame) -> Bool { frame.resolved.swiftModule == "Culprit" }

  private static func nameParts(_ frame: WeightedStack.Frame) -> [String] {
    FunctionName.split(frame.resolved.function ?? frame.resolved.displayName)
  }
}

extension Observations {
  /// The function in which the task was suspended most while its work continued elsewhere: the innermost one outside
  /// the system's code. `caller` is the innermost other application function that awaited it. `nil` if the task was
  /// suspended for less than half of the stall.
  var suspension: (place: StallReport.Finding, caller: StallReport.Finding?)? {
    var times: [FunctionIdentity: Duration] = [:]
    var whole = Duration.zero
    for observation in stacks where observation.isElsewhere {
      whole += observation.stack.time
      guard let place = Self.place(observation.stack.frames) else { continue }
      times[observation.stack.frames[place].identity, default: .zero] += observation.stack.time
    }
    guard whole > .zero, whole * 2 >= duration, let heaviest = Suspects.heaviest(times).first else { return nil }
    func claim(_ find: ([WeightedStack.Frame]) -> Int?) -> StallReport.Finding? {
      var found: [Int: Int] = [:]
      for (number, observation) in stacks.enumerated() where observation.isElsewhere {
        let frames = observation.stack.frames
        guard let place = Self.place(frames), frames[place].identity == heaviest else { continue }
        found[number] = find(frames)
      }
      guard let first = found.min(by: { $0.key < $1.key }) else { return nil }
      return self.claim(on: stacks[first.key].stack.frames[first.value].identity, at: found)
    }
    guard let place = claim(Self.place) else { return nil }
    let caller = claim { frames in
      guard let place = Self.place(frames), !frames[place].isApplication else { return nil }
      return frames[..<place].lastIndex(where: \.isApplication)
    }
    return (place, caller)
  }

  private static func place(_ frames: [WeightedStack.Frame]) -> Int? {
    frames.lastIndex { $0.owner != .system } ?? frames.indices.last
  }
}

import CulpritStallRecord

/// Stacks of suspended tasks whose work goes on out of sight: in a callback, on a queue, in another library.
///
/// No function of such a stack did the work, so none is to blame. A function of the application that awaits a continuation of its own
/// or of a library keeps the blame for that wait, but for two kinds: a function that only opens a section or a label around the wait,
/// and a library's code that no function of the application awaits. A task that sleeps has asked for the wait itself.
enum AwaitedElsewhere {
  /// Whether no function of `frames`, outermost first, is to blame for the wait of the suspended task that they are of.
  static func has(_ frames: [WeightedStack.Frame]) -> Bool {
    guard !isAsleep(frames) else { return false }
    guard let innermost = frames.lastIndex(where: \.isApplication) else { return true }
    guard let opener = frames.lastIndex(where: isOpener) else { return false }
    guard innermost > opener else { return true }
    // The closure of the section. The function that it is written in may be missing: a witness has its place.
    let parts = nameParts(frames[innermost])
    let isFirst = frames[(opener + 1)...].first { $0.owner != .system }?.identity == frames[innermost].identity
    if isFirst, parts.first?.hasPrefix("closure #") ?? false { return true }
    // Or a closure that was passed to a function that opens a section.
    return frames[..<opener].contains { $0.owner != .system && nameParts($0).last == parts.last }
  }

  /// Whether the suspended task of `frames` sleeps.
  static func isAsleep(_ frames: [WeightedStack.Frame]) -> Bool {
    frames.reversed().prefix { !$0.isApplication }
      .contains { $0.owner == .system && ($0.resolved.function?.contains("sleep(") ?? false) }
  }

  /// Whether the function opens a section, a label or an activity and awaits the work in it.
  private static func isOpener(_ frame: WeightedStack.Frame) -> Bool { frame.resolved.swiftModule == "Culprit" }

  /// The name of a function, or those of a closure and of the functions that it is written in.
  private static func nameParts(_ frame: WeightedStack.Frame) -> [String] {
    FunctionName.split(frame.resolved.function ?? frame.resolved.displayName)
  }
}

/// Where a task was suspended while its work went on elsewhere.
package struct Suspension: Hashable, Sendable {
  /// The innermost function that is not the system's, for most of that time.
  package var place: Claim
  /// The innermost function of the application that awaited it; `nil` where that is the same one, or there is none.
  package var caller: Claim?
}

extension Observations {
  /// Where the task was suspended while its work went on elsewhere, if that was at least half of the stall.
  var suspension: Suspension? {
    var times: [FunctionIdentity: Duration] = [:]
    var whole = Duration.zero
    for observation in stacks where observation.isElsewhere {
      whole += observation.stack.time
      guard let place = Self.place(observation.stack.frames) else { continue }
      times[observation.stack.frames[place].identity, default: .zero] += observation.stack.time
    }
    guard whole > .zero, whole * 2 >= duration, let heaviest = Blame.heaviest(times).first else { return nil }
    func claim(_ find: ([WeightedStack.Frame]) -> Int?) -> Claim? {
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
    return Suspension(
      place: place,
      caller: claim { frames in
        guard let place = Self.place(frames), !frames[place].isApplication else { return nil }
        return frames[..<place].lastIndex(where: \.isApplication)
      }
    )
  }

  private static func place(_ frames: [WeightedStack.Frame]) -> Int? {
    frames.lastIndex { $0.owner != .system } ?? frames.indices.last
  }
}

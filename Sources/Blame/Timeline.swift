import CulpritStallRecord

/// A stretch of a stall that one function held.
package struct TimelineStretch: Hashable, Sendable {
  /// The age of the work at its beginning and at its end.
  package var begin: Duration
  package var end: Duration
  /// The function, with its part of the stretch; `nil` where it is none of the application's.
  package var claim: Claim?
}

/// A stall in order of time: which function held which stretch of it.
///
/// Neighbouring samples of the same function are a stretch. One that is too short to matter belongs to its longer neighbour, again
/// and again: what takes turns for all of the time is one stretch of who has most of it.
enum Timeline {
  /// A shorter stretch than this part of the stall is none of its own.
  private static let shortest = 0.05
  /// A single sample is one only where it stands for more than this part: fewer are chance where functions take turns.
  private static let longSample = 0.2
  /// A stall is looked at in no more parts than this.
  private static let finest = 1000
  /// The most stretches.
  private static let most = 8

  private struct Run {
    var range: Range<Int>
    var times: [FunctionIdentity?: Duration]
    var time: Duration
    /// Who has most of it.
    var function: FunctionIdentity? {
      let heaviest = times.max { one, other in
        guard one.value == other.value else { return one.value < other.value }
        // Equal ones in a fixed order.
        guard let left = one.key, let right = other.key else { return one.key == nil }
        return right < left
      }
      return heaviest?.key ?? nil
    }
  }

  /// The stretches of `observations`, which are of one thread, where sample number n belongs to `functions[n]`. Empty where there is
  /// but one: it says nothing new.
  static func stretches(_ observations: Observations, _ functions: [FunctionIdentity?]) -> [TimelineStretch] {
    // So many samples at once that there are few runs, however many samples there are.
    let step = (functions.count + Self.finest - 1) / Self.finest
    var runs = merged(
      stride(from: 0, to: functions.count, by: max(1, step))
        .map { begin in
          var run = Run(range: begin..<min(begin + step, functions.count), times: [:], time: .zero)
          for place in run.range {
            run.times[functions[place], default: .zero] += observations.stacks[place].stack.time
            run.time += observations.stacks[place].stack.time
          }
          return run
        }
    )
    let whole = observations.duration.inSeconds
    func isTooShort(_ run: Run) -> Bool {
      run.time.inSeconds < (run.range.count > 1 ? shortest : longSample) * whole
    }
    while runs.count > 1, let smallest = runs.indices.min(by: { runs[$0].time < runs[$1].time }),
      let place = runs.indices.filter({ isTooShort(runs[$0]) }).min(by: { runs[$0].time < runs[$1].time })
        ?? (runs.count > most ? smallest : nil)
    {
      let isFirst = place == 0
      let isLast = place == runs.count - 1
      let joinsNext = isFirst || (!isLast && runs[place + 1].time > runs[place - 1].time)
      let left = joinsNext ? place : place - 1
      runs[left] = joined(runs[left], runs[left + 1])
      runs.remove(at: left + 1)
      runs = merged(runs)
    }
    guard runs.count > 1 else { return [] }
    let ages = observations.stacks.map(\.age)
    return runs.map { run in
      let part = observations.part(run.range)
      return TimelineStretch(
        begin: run.range.lowerBound == 0 ? .zero : (ages[run.range.lowerBound - 1] + ages[run.range.lowerBound]) / 2,
        end: run.range.upperBound == ages.count
          ? observations.duration : (ages[run.range.upperBound - 1] + ages[run.range.upperBound]) / 2,
        claim: run.function.map { part.claim(on: $0) }
      )
    }
  }

  private static func joined(_ one: Run, _ next: Run) -> Run {
    Run(
      range: one.range.lowerBound..<next.range.upperBound,
      times: one.times.merging(next.times) { $0 + $1 },
      time: one.time + next.time
    )
  }

  /// `runs`, neighbours of the same function put together.
  private static func merged(_ runs: [Run]) -> [Run] {
    var result: [Run] = []
    for run in runs {
      if let last = result.last, last.function == run.function {
        result[result.count - 1] = joined(last, run)
      } else {
        result.append(run)
      }
    }
    return result
  }
}

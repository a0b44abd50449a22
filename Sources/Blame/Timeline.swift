import CulpritStallRecord

/// Divides a stall into phases with one dominant function each. Neighbouring samples of one function form a phase.
/// Short phases are merged into their longer neighbours, repeatedly.
enum Timeline {
  private static let shortest = 0.05
  /// Minimum length of a phase with a single sample, as a share of the stall.
  private static let longSample = 0.2
  private static let finest = 1000
  private static let most = 8

  private struct Run {
    var range: Range<Int>
    var times: [FunctionIdentity?: Duration]
    var time: Duration
    var function: FunctionIdentity? {
      let heaviest = times.max { one, other in
        guard one.value == other.value else { return one.value < other.value }
        guard let left = one.key, let right = other.key else { return one.key == nil }
        return right < left
      }
      return heaviest?.key ?? nil
    }
  }

  /// Returns the phases of one thread; sample n belongs to `functions[n]`. Empty for a single phase.
  static func stretches(_ observations: Observations, _ functions: [FunctionIdentity?]) -> [StallReport.Stretch] {
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
      let begin = run.range.lowerBound == 0 ? .zero : (ages[run.range.lowerBound - 1] + ages[run.range.lowerBound]) / 2
      let end =
        run.range.upperBound == ages.count
        ? observations.duration : (ages[run.range.upperBound - 1] + ages[run.range.upperBound]) / 2
      return StallReport.Stretch(
        beginSeconds: Seconds(begin),
        endSeconds: Seconds(end),
        culprit: run.function.map { part.claim(on: $0) }
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

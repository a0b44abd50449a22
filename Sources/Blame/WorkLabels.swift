import CulpritStallRecord

extension Observations {
  var labels: [StallReport.Label] {
    var sums: [String: Duration] = [:]
    for (sample, time) in sampleTimes where !sample.label.isEmpty { sums[sample.label, default: .zero] += time }
    let weights = sampleTimes.map(\.time.inSeconds)
    return sums.ordered { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }
      .map { label, time in
        let share = Share(time: time, of: duration, weights: weights)
        return StallReport.Label(text: label, share: share.fraction, seconds: Seconds(time))
      }
  }

  var taskTimes: StallReport.TaskTimes? {
    var (suspended, ready) = (Duration.zero, Duration.zero)
    for (sample, time) in sampleTimes {
      if sample.isInTheWay || sample.activity == .enqueued {
        ready += time
      } else if sample.activity == .suspended {
        suspended += time
      }
    }
    guard ready + suspended > .zero else { return nil }
    return StallReport.TaskTimes(suspendedSeconds: Seconds(suspended), readySeconds: Seconds(ready))
  }
}

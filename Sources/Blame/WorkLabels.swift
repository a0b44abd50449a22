import CulpritStallRecord

/// What the application had said of the work, and for how much of the stall.
package struct LabelShare: Hashable, Sendable {
  /// The label.
  package var label: String
  /// The time of the samples that carry it.
  package var share: Share
}

extension Observations {
  /// How the time divides between labels, the longest first; empty when there are none.
  var labels: [LabelShare] {
    var sums: [String: Duration] = [:]
    for (sample, time) in sampleTimes where !sample.label.isEmpty { sums[sample.label, default: .zero] += time }
    let weights = sampleTimes.map(\.time.inSeconds)
    return sums.sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }
      .map { LabelShare(label: $0.key, share: Share(time: $0.value, of: duration, weights: weights)) }
  }

  /// How long no thread ran the task that worked; `nil` where one always did.
  var taskTimes: TaskTimes? {
    var sums = TaskTimes(suspended: .zero, ready: .zero)
    for (sample, time) in sampleTimes {
      if sample.isInTheWay || sample.activity == .enqueued {
        sums.ready += time
      } else if sample.activity == .suspended {
        sums.suspended += time
      }
    }
    return sums.ready + sums.suspended > .zero ? sums : nil
  }
}

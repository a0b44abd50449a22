import CulpritStallRecord

/// A label of the work with its share of the stall.
package struct LabelShare: Hashable, Sendable {
  /// The label.
  package var label: String
  /// The time of the samples with the label.
  package var share: Share
}

extension Observations {
  /// The labels with their shares, longest first; empty if there are none.
  var labels: [LabelShare] {
    var sums: [String: Duration] = [:]
    for (sample, time) in sampleTimes where !sample.label.isEmpty { sums[sample.label, default: .zero] += time }
    let weights = sampleTimes.map(\.time.inSeconds)
    return sums.sorted { $0.value != $1.value ? $0.value > $1.value : $0.key < $1.key }
      .map { LabelShare(label: $0.key, share: Share(time: $0.value, of: duration, weights: weights)) }
  }

  /// The times in which no thread ran the task; `nil` if there are none.
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

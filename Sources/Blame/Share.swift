import CulpritStallRecord

package struct Share: Hashable, Sendable {
  package var fraction: Double
  package var time: Duration
  package var low: Double
  package var high: Double

  /// Estimates the share of `time` in `total` from samples with `weights` in seconds.
  ///
  /// The interval is Wilson's score interval. The number of observations is Kish's effective sample size, (Σw)²/Σw²,
  /// because samples are denser before the threshold than after it and represent different times.
  init(time: Duration, of total: Duration, weights: [Double]) {
    self.time = time
    let whole = total.inSeconds
    fraction = whole > 0 ? min(1, max(0, time.inSeconds / whole)) : 0
    let sum = weights.reduce(0, +)
    let squares = weights.reduce(0) { $0 + $1 * $1 }
    let observations = squares > 0 ? sum * sum / squares : 0
    guard observations > 0 else {
      (low, high) = (0, 1)
      return
    }
    let z = 1.959964  // the normal distribution's 97.5 % quantile
    let z2 = z * z / observations
    let center = (fraction + z2 / 2) / (1 + z2)
    let half = z / (1 + z2) * (fraction * (1 - fraction) / observations + z2 / (4 * observations)).squareRoot()
    low = max(0, center - half)
    high = min(1, center + half)
  }
}

import Judges
import CCulpritLinux
import CCulpritObserver
import Culprit
import Glibc

/// Measures the cost of counting a probe, and of reading all metrics.
func benchMetrics(_ figures: Figures) throws {
  let watchdog = try Watchdog()
  defer { watchdog.stop() }
  let series = UnsafeMutablePointer<observer_series>.allocate(capacity: 1)
  series.initialize(to: observer_series())
  defer { series.deallocate() }
  // The cost of a probe's begin and end, without and with counting. Both variants read the clock.
  let slot = UnsafeMutablePointer<observer_slot>.allocate(capacity: 1)
  slot.initialize(to: observer_slot())
  defer { slot.deallocate() }
  var (plain, counted): ([Double], [Double]) = ([], [])
  for _ in 0..<300 {
    plain.append(
      nanoseconds(of: 20_000) {
        observer_slot_begin_for(slot, nil, clinux_clock_ns())
        _ = clinux_clock_ns()
        observer_slot_end(slot)
      }
    )
    counted.append(
      nanoseconds(of: 20_000) {
        let sent = clinux_clock_ns()
        observer_slot_begin_for(slot, nil, sent)
        let now = clinux_clock_ns()
        observer_slot_end(slot)
        observer_series_probe(series, now &- sent &+ 30_000)
      }
    )
  }
  figures.print("metrics.probe_plain", median(plain), "ns")
  figures.print("metrics.probe_counted", median(counted), "ns")
  figures.print("metrics.probe_cost", median(zip(counted, plain).map { $0 - $1 }), "ns", in: -100...50)

  // The maximum number of sources.
  var loops: [WatchedLoop] = []
  for number in 0..<256 { loops.append(try watchdog.watchLoop(named: "loop \(number)")) }
  var (taken, text): ([Double], [Double]) = ([], [])
  var bytes = 0
  for _ in 0..<30 {
    let metrics = watchdog.metrics
    taken.append(nanoseconds(of: 1) { _ = watchdog.metrics } / 1000)
    text.append(nanoseconds(of: 1) { bytes = metrics.prometheusText().utf8.count } / 1000)
  }
  figures.print("metrics.sources", Double(watchdog.metrics.sources.count), "sources", in: 256...256)
  figures.print("metrics.take", median(taken), "us")
  figures.print("metrics.text", median(text), "us", in: 0...50_000)
  figures.print("metrics.text_bytes", Double(bytes), "bytes", in: 1...2e6)
  withExtendedLifetime(loops) {}
}

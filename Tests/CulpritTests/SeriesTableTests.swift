import CCulpritObserver
import CulpritStallRecord
import Testing

@testable import Culprit

@Suite struct SeriesTableTests {
  private func source(_ name: String, _ kind: SourceKind = .section) -> WatchedSource {
    WatchedSource(kind: kind, name: name)
  }

  @Test func returningSourceKeepsItsCounts() {
    var table = SeriesTable()
    let first = table.acquire(source("a"))
    observer_series_probe(first.series.counts, 5)
    table.release(first.place)
    let again = table.acquire(source("a"))
    #expect(again.series.counts == first.series.counts)
    #expect(table.acquire(source("a", .queue)).series.counts != first.series.counts)
  }

  @Test func freesSeriesWithoutCounts() {
    var table = SeriesTable()
    let counted = table.acquire(source("counted"))
    observer_series_probe(counted.series.counts, 5)
    table.release(counted.place)
    _ = table.keep(source("kept"))
    let watched = table.acquire(source("watched"))
    _ = table.acquire(source("loop", .loop))
    for _ in 0..<2 { table.release(table.acquire(source("import")).place) }
    for number in 0..<10_000 { table.release(table.acquire(source("request \(number)")).place) }
    #expect(table.all.map(\.source.name) == ["counted", "kept", "loop", "import"])
    #expect(table.acquire(source("counted")).series.counts == counted.series.counts)
    #expect(table.acquire(source("watched")).series.counts == watched.series.counts)
  }

  @Test func countsExcessSourcesTogether() {
    var table = SeriesTable()
    for number in 0..<1000 {
      let (place, series) = table.acquire(source("request \(number)"))
      observer_series_stall_began(series.counts)
      table.release(place)
      let sum = table.all.map { observer_series_read($0.series.counts).stalls }.reduce(0, +)
      #expect(sum == UInt64(number + 1))
    }
    #expect(table.all.count == SeriesTable.capacity + 1)
    #expect(table.all.last?.source == SeriesTable.others)
    #expect(table.all.last.map { observer_series_read($0.series.counts).stalls } == 1000 - UInt64(SeriesTable.capacity))
    #expect(table.keep(source("request 1")).counts == table.all[1].series.counts)
  }

  @Test func namesSeriesUniquely() {
    let long = String(repeating: "é", count: 5000)
    let table = { () -> SeriesTable in
      var table = SeriesTable()
      for name in [long + "a", long + "b", "\u{1b}[31m", "\\u{1b}[31m", "e\u{301}", "é", "", "\0"] {
        _ = table.acquire(source(name, .loop))
      }
      return table
    }()
    let names = table.all.map(\.source.name)
    #expect(Set(names).count == names.count)
    #expect(names == [String(long.prefix(100)) + "…", "\\u{1b}[31m", "é", "", "\\u{0}"])
    #expect(names.allSatisfy { $0.utf8.count <= SeriesTable.nameBytes + 3 })
  }

  @Test func countsTimesInTheirBucket() {
    var series = SeriesTable()
    let counts = series.acquire(source("a")).series.counts
    for bucket in 0..<UInt32(OBSERVER_HISTOGRAM_BOUNDS) {
      let bound = observer_histogram_bound(bucket)
      #expect(observer_histogram_bucket(bound) == bucket)
      #expect(observer_histogram_bucket(bound + 1) == bucket + 1)
      if bucket > 0 { #expect(bound > observer_histogram_bound(bucket - 1)) }
    }
    for time in [0, 100_000, 100_001, 4_000_000_000, .max / 2] as [UInt64] { observer_series_probe(counts, time) }
    let found = observer_series_latencies(counts)
    #expect(found.map { observer_histogram_count($0, 0) } == 2)
    #expect(found.map { observer_histogram_count($0, 1) } == 1)
    #expect(found.map { observer_histogram_count($0, UInt32(OBSERVER_HISTOGRAM_BOUNDS)) } == 1)
    #expect(found.map { observer_histogram_sum_ns($0) } == UInt64.max / 2 + 4_000_200_001)
  }
}

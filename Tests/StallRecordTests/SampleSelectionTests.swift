import CulpritStallRecord
import SampleRecordings
import Testing

@Suite struct SampleSelectionTests {
  /// A stall with a sample each millisecond, alternately of two threads. Every hundredth sample has counters.
  private static func stall(_ count: Int) -> Stall {
    var stall = Stall("pool", kind: .pool, thread: (7, ""), began: 1_700_000_000_000_000_000)
    stall.duration = .milliseconds(count)
    stall.hasEnded = true
    stall.samples = (0..<count).map { number in
      var sample = Sample(.milliseconds(number), nil, threadID: number.isMultiple(of: 2) ? 7 : 8)
      if number.isMultiple(of: 100) { sample.evidence.counters = ThreadCounters() }
      return sample
    }
    return stall
  }

  @Test(arguments: [0, 1, 999, 1999]) func keepsAllOfFewSamples(_ count: Int) {
    let stall = Self.stall(count)
    #expect(stall.withSamples(1000) == stall)
  }

  @Test(arguments: [2000, 2001, 4095, 100_050, 300_001]) func thinsManySamplesEvenly(_ count: Int) throws {
    let stall = Self.stall(count)
    let chosen = stall.withSamples(1000)
    // The last sample and the last sample with counters are always included.
    #expect((1000...2001).contains(chosen.samples.count))
    #expect(chosen.leftOutSamples + chosen.samples.count == count)
    #expect(chosen.samples.first == stall.samples.first)
    #expect(chosen.samples.last == stall.samples.last)
    #expect(chosen.samples == chosen.samples.sorted { $0.age < $1.age })
    #expect(chosen.samples.last { $0.evidence.counters != nil } == stall.samples.last { $0.evidence.counters != nil })
    #expect(Set(chosen.samples).count == chosen.samples.count)
    // Each tenth of the time and each thread keep approximately their share of samples.
    for tenth in 0..<10 {
      let part = chosen.samples.count { Int($0.age / .milliseconds(count) * 10) == tenth }
      #expect(abs(part - chosen.samples.count / 10) <= 3, "tenth \(tenth)")
    }
    let first = Double(chosen.samples.count { $0.threadID == 7 }) / Double(chosen.samples.count)
    #expect((0.42...0.58).contains(first))
    #expect(stall.withSamples(1000) == chosen)
  }

  @Test func limitsSamplesWhenReading() throws {
    let stall = Self.stall(10_000)
    let bytes = StallFileWriter.file(of: Recording(process: nil, stalls: [stall]))
    let all = try StallFile(bytes: bytes).recording.stalls[0]
    let some = try StallFile(bytes: bytes, samples: 1000).recording.stalls[0]
    #expect(all.samples.count == 10_000)
    #expect(some == all.withSamples(1000))
    #expect(some.cost == all.cost)
  }
}

import CulpritStallRecord
import SampleRecordings
import Testing

@testable import CulpritCounting

@Suite struct AvailableValuesTests {
  private func offer(_ name: String, host: String = "web-1", began: UInt64 = 0) -> AvailableValues {
    let stall = Stall(name, threshold: .zero, began: WallTime(nanosecondsSince1970: began * 1_000_000_000))
    let process = ObservedProcess(1, "/opt/shop", host: host)
    var offer = AvailableValues()
    offer.add(stall, from: StallOrigin(Recording(process: process)))
    return offer
  }

  /// Lists a few values of each used option, the most frequent first.
  @Test func listsMostFrequentNames() {
    var all = AvailableValues()
    for number in 0..<7 { all.add(offer("s\(number)", host: "h\(number % 2)", began: UInt64(number))) }
    all.add(offer("s5", host: "a\u{1b}[2J"))
    #expect(all.count == 8)
    var selection = StallSelection()
    selection.sources = ["x"]
    let sources = "sources \"s5\", \"s0\", \"s1\", \"s2\", \"s3\", … (7); kind \"loop\""
    #expect(all.refusal(of: selection) == "the options exclude all 8 stalls; \(sources)")
    selection = StallSelection()
    selection.hosts = ["x"]
    selection.until = WallTime(nanosecondsSince1970: 0)
    #expect(
      all.refusal(of: selection) == "the options exclude all 8 stalls; hosts \"h0\", \"h1\", \"a\\u{1b}[2J\"; "
        + "they began from 1970-01-01T00:00:00.000Z to 1970-01-01T00:00:06.000Z"
    )
  }

  @Test func describesOnlyStall() {
    var only = offer("http", began: 1)
    var selection = StallSelection()
    selection.since = WallTime(nanosecondsSince1970: 2_000_000_000)
    let sentence = "the options exclude the only stall; it began at 1970-01-01T00:00:01.000Z"
    #expect(only.refusal(of: selection) == sentence)
    // Signatures are listed of stalls that match the other options.
    selection = StallSelection()
    selection.signatures = ["1"]
    #expect(only.refusal(of: selection) == "the options exclude the only stall")
    only.add(signature: "77c01b5e2f90")
    #expect(only.refusal(of: selection) == "the options exclude the only stall; signature \"77c01b5e2f90\"")
  }
}

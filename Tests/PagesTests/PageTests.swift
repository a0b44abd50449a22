import CCulpritZlib
import CulpritStallRecord
import Foundation
import SampleRecordings
import Testing

@testable import CulpritPages

extension Recording: CustomTestStringConvertible {
  /// A short description, because test output includes all arguments.
  public var testDescription: String { "recording with \(stalls.map(\.samples.count)) samples" }
}

private func page(_ recordings: [Recording], samplesPerReport: Int = Stall.samplesForReport) throws -> String {
  var writer = PageWriter(version: "0.1.0", samplesPerReport: samplesPerReport)
  for recording in recordings {
    writer.add(recording) { frame in
      recording.names[frame.lookupAddress]
        ?? [ResolvedFrame(function: nil, module: "", address: .runtime(frame.lookupAddress), missing: .notMapped)]
    }
  }
  var bytes: [UInt8] = []
  try writer.write { bytes += $0 }
  return try #require(String(validating: bytes, as: UTF8.self))
}

private func profile(_ number: Int, of page: String) throws -> Profile {
  let begin = try #require(page.range(of: "id=\"profile-\(number)\">"))
  let end = try #require(page.range(of: "</script>", range: begin.upperBound..<page.endIndex))
  let compressed = try #require(Data(base64Encoded: String(page[begin.upperBound..<end.lowerBound])))
  return try Profile(try decompressed(Array(compressed)))
}

private func decompressed(_ compressed: [UInt8]) throws -> [UInt8] {
  var stream = z_stream()
  try #require(inflateInit2_(&stream, 15 + 16, ZLIB_VERSION, Int32(MemoryLayout<z_stream>.size)) == Z_OK)
  defer { inflateEnd(&stream) }
  var input = compressed
  var buffer = [UInt8](repeating: 0, count: 16 << 20)
  var count = 0
  // SAFETY: zlib gets the sizes of both arrays, and is done with them before the closures return.
  input.withUnsafeMutableBufferPointer { source in
    buffer.withUnsafeMutableBufferPointer { target in
      stream.next_in = source.baseAddress
      stream.avail_in = UInt32(source.count)
      stream.next_out = target.baseAddress
      stream.avail_out = UInt32(target.count)
      count = inflate(&stream, Z_FINISH) == Z_STREAM_END ? target.count - Int(stream.avail_out) : -1
    }
  }
  try #require(count >= 0)
  return Array(buffer[..<count])
}

/// The data that a page's script reads, decoded according to its specification without code of the writer.
private struct Profile {
  var header: [String: Any]
  /// The weights of each track's samples.
  var weights: [[Int]] = []
  /// The stacks of each track's samples: function names, outermost first.
  var stacks: [[[String]]] = []

  init(_ bytes: [UInt8]) throws {
    let length = (0..<4).reduce(0) { $0 | Int(bytes[$1]) << ($1 * 8) }
    header = try #require(try JSONSerialization.jsonObject(with: Data(bytes[4..<4 + length])) as? [String: Any])
    var place = 4 + length
    func number() throws -> Int {
      var value = 0
      var shift = 0
      while true {
        try #require(place < bytes.count)
        let byte = bytes[place]
        place += 1
        value |= Int(byte & 0x7f) << shift
        shift += 7
        if byte < 0x80 { return value }
      }
    }
    func column(_ count: Int) throws -> [Int] { try (0..<count).map { _ in try number() } }
    func signed(_ values: [Int]) -> [Int] { values.map { $0 & 1 == 0 ? $0 / 2 : -($0 + 1) / 2 } }
    let names = try #require(header["names"] as? [String])
    let frameCount = try #require(header["frameCount"] as? Int)
    let nodeCount = try #require(header["nodeCount"] as? Int)
    let functions = try column(frameCount)
    for _ in 0..<3 { _ = try column(frameCount) }
    let parents = try column(nodeCount).enumerated().map { $0.offset - $0.element }
    let frames = try column(nodeCount)
    for count in try #require(header["sampleCounts"] as? [Int]) {
      let distances = signed(try column(count))
      let lengths = try column(count)
      let weights = zip(lengths, signed(try column(count))).map { $0 - $1 }
      let ends = try column(count)
      _ = try column(2 * count)
      var position = 0
      for (distance, length) in zip(distances, lengths) {
        position += distance
        try #require(position >= 0)
        position += length
      }
      self.weights.append(weights)
      stacks.append(
        ends.map { end in
          var stack: [String] = []
          var node = end - 1
          while node >= 0 {
            stack.append(names[functions[frames[node]]])
            node = parents[node]
          }
          return stack.reversed()
        }
      )
    }
    for _ in try #require(header["otherThreads"] as? [String]) { _ = try column(2) }
    try #require(place == bytes.count)
  }
}

@Suite struct PageTests {
  /// The name of a function without a symbol contains its module, so the page does not repeat the module.
  @Test func printsAddressOnce() throws {
    var recording = SampleRecordings.everyday()
    #expect(try page([recording]).contains("<p class=\"source\">"))
    recording.names = recording.names.mapValues { frames in
      frames.map { ResolvedFrame(function: nil, module: "/opt/shop", address: $0.address, missing: .noSymbols) }
    }
    let page = try page([recording])
    #expect(page.contains(">shop+0x") && !page.contains("<p class=\"source\">"))
    #expect(page.firstMatch(of: /(shop\+0x[0-9a-f]+) \(\1\)/) == nil)
  }

  private static let recordings: [String: @Sendable () -> Recording] = [
    "everyday": { SampleRecordings.everyday() }, "workers": SampleRecordings.workers,
    "hostile": SampleRecordings.hostile, "waits": { SampleRecordings.waits(isDeadlock: false) },
    "deadlock": { SampleRecordings.waits(isDeadlock: true) },
    "large": { SampleRecordings.large(samples: 2000, stacks: 100) },
  ]

  @Test(arguments: recordings.keys.sorted()) func weightsSumToStallDuration(name: String) throws {
    let make = try #require(Self.recordings[name])
    let recording = make()
    let profile = try profile(0, of: try page([recording]))
    let nanoseconds = Int(recording.stalls[0].duration.wholeNanoseconds)
    #expect(profile.weights.joined().reduce(0, +) == nanoseconds)
    #expect(profile.header["durationNs"] as? Int == nanoseconds)
    #expect(profile.header["thresholdNs"] as? Int == Int(recording.stalls[0].threshold.wholeNanoseconds))
    // Gaps have no sample, and no sample is missing.
    let sampled = profile.stacks.joined().filter { !["(not observed)", "(not watched yet)"].contains($0.first) }.count
    #expect(sampled == recording.stalls[0].samples.count)
  }

  @Test func stacksMatchRecording() throws {
    let profile = try profile(0, of: try page([SampleRecordings.everyday()]))
    #expect(
      profile.stacks[0].contains([
        "_start", "main", "Server.run()", "Catalog.rebuildIndex(for:)", "Catalog.insert(_:)", "Catalog.hash(_:)",
      ])
    )
    #expect(profile.header["culprit"] as? String == "Catalog.rebuildIndex(for:)")
    #expect(profile.header["labels"] as? [String] == ["request 1", "request 2"])
    #expect((profile.header["otherThreads"] as? [String])?.count == 2)
  }

  /// Without scripts, the page contains the report in the words of the terminal output.
  @Test func rendersReportWithoutScript() throws {
    let page = try page([SampleRecordings.everyday()])
    for text in [
      "Catalog.<wbr>rebuildIndex(for:<wbr>)<wbr></h2>", "70 % of the stall, 3.53 s",
      "event loop &quot;http&quot; was stuck for 5.01 s, limit 2.50 s", "waiting for a lock, 20 %, 1.00 s",
      "9 of 11 samples; 95 % interval 40–90 %", "Do less at once:", "a hang from 4.00 s on",
    ] {
      #expect(page.contains(text), "\(text)")
    }
  }

  /// The page has one script, fetches nothing, and names cannot add markup.
  @Test(arguments: ["everyday", "hostile", "waits", "deadlock"]) func loadsNoExternalResources(name: String) throws {
    let make = try #require(Self.recordings[name])
    let page = try page([make()])
    for text in ["http:", "https:", "src=", "url(", "@import", "javascript:", " style=", "onclick=\""] {
      #expect(!page.lowercased().contains(text), "\(text)")
    }
    #expect(page.components(separatedBy: "<script>").count == 2)
    #expect(page.components(separatedBy: "<script").count == 3)
    #expect(page.components(separatedBy: "</script>").count == 3)
    #expect(page.contains("default-src 'none'"))
    #expect(page.unicodeScalars.allSatisfy { $0 == "\n" || isPrintable($0) })
    #expect(page.utf8.count < 200_000)
  }

  /// The chain of lock waits is drawn from the work to the thread at the root, or as a ring.
  @Test(arguments: [false, true]) func drawsWaitChains(isDeadlock: Bool) throws {
    let page = try page([SampleRecordings.waits(isDeadlock: isDeadlock)])
    #expect(page.matches(of: /<ol class="chain">/).count == 1)
    let heading = isDeadlock ? "in a deadlock with " : "held by Disk.<wbr>write"
    #expect(page.contains("<p class=\"share\">\(heading)"))
    let begin = try #require(page.range(of: "<ol class=\"chain\">"))
    var rest = page[begin.upperBound...].prefix(10_000)
    // The names occur in this order.
    for text in ["Store.<wbr>read", "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;amp;", "Store.<wbr>flush"]
      + (isDeadlock ? [] : ["\\u{1b}[31mred\\u{1b}[0m\\u{7}", "Disk.<wbr>write"])
    {
      let found = try #require(rest.range(of: text), "\(text)")
      rest = rest[found.upperBound...]
    }
  }

  @Test func listsNewestStallFirst() throws {
    let page = try page([
      SampleRecordings.everyday(), SampleRecordings.workers(), SampleRecordings.everyday(stall: 2, began: 67),
    ])
    let list = try #require(page.firstMatch(of: #/(?s)<nav id="stalls".*?</nav>/#)).output
    let times = list.matches(of: #/<time datetime="([^"]*)"/#).map { String($0.1) }
    #expect(times.count == 3 && times == times.sorted().reversed())
    for number in 0..<3 { _ = try profile(number, of: page) }
  }

  @Test func ranksProblemsOfSeveralStalls() throws {
    let several = try page([
      SampleRecordings.workers(), SampleRecordings.everyday(), SampleRecordings.everyday(stall: 2, began: 67),
    ])
    let table = try #require(several.firstMatch(of: #/(?s)<section id="problems">.*?</section>/#)).output
    let rows = table.matches(of: #/<tr><td><a href="#stall=[^"]*">(.*?)</a></td><td class="number" data-key="(\d+)"/#)
    #expect(rows.map { String($0.2) }.sorted() == ["1", "2"], "\(table)")
    let totals = table.matches(of: #/data-key="(\d{6,})"/#).map { Int($0.1) ?? 0 }
    // Each row has the total and the longest duration.
    #expect(totals.count == 4 && totals[0] >= totals[2], "\(totals)")
    #expect(try !page([SampleRecordings.everyday()]).contains("id=\"problems\""))
  }

  @Test func containsMarkdownForCopying() throws {
    let page = try page([SampleRecordings.everyday()])
    let text = try #require(page.firstMatch(of: #/(?s)<pre class="markdown" hidden>(.*?)</pre>/#)).1
    #expect(text.hasPrefix("### ") && text.contains("\n```text\nSTALL ") && text.hasSuffix("```\n"))
  }

  @Test func pagesAreDeterministic() throws {
    #expect(try page([SampleRecordings.workers()]) == page([SampleRecordings.workers()]))
  }

  @Test func writesNothingWithoutStalls() throws {
    var recording = SampleRecordings.everyday()
    recording.stalls = []
    #expect(try page([recording]) == "")
  }

  @Test func rethrowsWriteErrors() throws {
    struct Full: Error {}
    var writer = PageWriter(version: "0.1.0")
    writer.add(SampleRecordings.everyday()) { SampleRecordings.everyday().names[$0.lookupAddress] ?? [] }
    #expect(throws: Full.self) { try writer.write { _ in throw Full() } }
  }

  /// A verdict based on a part of the samples is marked. The graphs have all samples.
  @Test func limitsSamplesPerVerdict() throws {
    let large = SampleRecordings.large(samples: 1_000, stacks: 50)
    let chosen = try page([large], samplesPerReport: 100)
    #expect(!chosen.matches(of: #/8[0-9]{2} more samples omitted evenly/#).isEmpty)
    #expect(try !page([large]).contains("omitted evenly"))
    #expect(try profile(0, of: chosen).weights == profile(0, of: page([large])).weights)
  }
}

@Suite struct EncodingTests {
  /// Browsers run only the script whose digest is in the policy. A change of a file in Web/ needs new digests.
  @Test(arguments: [(PageShell.script, PageShell.scriptDigest), (PageShell.style, PageShell.styleDigest)])
  func policyHasTheDigests(text: String, digest: String) throws {
    let (command, input, output) = (Process(), Pipe(), Pipe())
    command.executableURL = URL(fileURLWithPath: "/usr/bin/sha256sum")
    (command.standardInput, command.standardOutput) = (input, output)
    try command.run()
    try input.fileHandleForWriting.write(contentsOf: Data(text.utf8))
    try input.fileHandleForWriting.close()
    let digits = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self).prefix(64)
    command.waitUntilExit()
    var rest = digits
    var bytes = Data()
    while let byte = UInt8(rest.prefix(2), radix: 16) {
      bytes.append(byte)
      rest = rest.dropFirst(2)
    }
    #expect(digest == "sha256-" + bytes.base64EncodedString())
  }

  @Test(arguments: 0..<70) func base64RoundTrip(count: Int) {
    let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 * 37 + 200) }
    #expect(Data(base64Encoded: Data(Base64.encode(bytes))) == Data(bytes))
  }

  @Test func escapesMarkup() {
    #expect(
      Markup.text("<a b='c' d=\"e\">&\u{202e}\u{0}") == "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;\\u{202e}\\u{0}"
    )
  }
}

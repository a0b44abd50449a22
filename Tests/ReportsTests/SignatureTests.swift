import CulpritStallRecord
import Testing

@testable import CulpritBlame
@testable import CulpritReports

@Suite struct SignatureTests {
  private func frame(
    _ name: String?,
    swiftModule: String? = nil,
    module: String = "/opt/shop/bin/shop",
    at address: UInt64 = 1
  ) -> ResolvedFrame {
    ResolvedFrame(
      function: name,
      rawName: name.map { "raw \($0) \(address)" },
      swiftModule: swiftModule,
      module: module,
      start: FileAddress(address),
      address: .file(FileAddress(address)),
      location: SourceLocation(file: "/src/\(address).swift", line: Int(address))
    )
  }

  private func signature(
    _ function: ResolvedFrame?,
    service: String = "shop",
    kind: StallReport.Source.Kind = .loop,
    name: String = "http",
    verdict: StallReport.Verdict = .culprit
  ) -> String {
    Signature.of(StallReport.Source(kind: kind, name: name), service: service, verdict: verdict, function: function)
  }

  /// The value in docs/internals/many-stalls.md, computed by another program, must never change.
  @Test func matchesDocumentedValue() {
    #expect(signature(frame("Catalog.rebuildIndex(for:)", swiftModule: "Shop")) == "52ccabb68e2e")
    #expect(Signature.hash([]) == "cbf29ce48422")
  }

  /// Addresses, lines, symbols, closure numbers, library versions and source names have no effect.
  @Test func isStableAcrossBuilds() {
    let function = signature(frame("closure #1 in load()", swiftModule: "Shop"))
    #expect(signature(frame("closure #12 in load()", swiftModule: "Shop", at: 99)) == function)
    #expect(signature(frame("closure #1 in load()", swiftModule: "Shop"), name: "http-2") == function)
    let library = signature(frame("find", module: "/usr/lib/libshop.so.1.2"))
    #expect(signature(frame("find", module: "/opt/libshop.so.2 (deleted)", at: 7)) == library)
    #expect(signature(frame("find", module: "/opt/libshop.so")) == library)
    #expect(signature(frame(nil, at: 1)) == signature(frame(nil, at: 2)))
  }

  /// A slow request stalls its loop, its job and its section, which share a signature.
  @Test func isSharedBySources() {
    let kinds: [StallReport.Source.Kind] = [.loop, .probedLoop, .job, .section, .queue, .executor]
    let all = kinds.map { signature(frame("load()", swiftModule: "Shop"), kind: $0, name: $0.rawValue) }
    #expect(Set(all).count == 1)
  }

  @Test func isStableAcrossTies() {
    let names: [UInt64: String] = [16: "main", 32: "Catalog.load()", 48: "Catalog.store()"]
    func report(_ first: Int) -> StallReport {
      let stacks = [[32, 16], [48, 16]].map { (addresses: [UInt64]) in
        Stack(frames: addresses.map { .programCounter(RuntimeAddress($0)) }, end: .outermost)
      }
      let samples = (0..<200).map { number in
        Sample(age: .milliseconds(10 * number + 5), stack: number < first ? 0 : 1, outcome: .captured, cpuTime: nil)
      }
      var stall = exampleStall().0
      (stall.samples, stall.duration, stall.lostSamples, stall.gap) = (samples, .seconds(2), 0, .zero)
      let builder = ReportBuilder(Recording(process: exampleProcess, stacks: stacks, stalls: [stall])) { found in
        let name = names[found.address.value]
        let address = CodeAddress.file(FileAddress(found.address.value))
        return [ResolvedFrame(function: name, rawName: name, module: "/opt/shop/bin/shop", address: address)]
      }
      return builder.report(of: stall)
    }
    let reports = (99...101).map(report)
    #expect(Set(reports.map(\.signature)).count == 1)
    for report in reports {
      #expect(report.verdict == .noSingleCulprit)
      #expect(report.description.contains("CULPRIT   none: between Catalog."), "\(report)")
    }
  }

  @Test func differsBetweenProblems() {
    let all = [
      signature(frame("load()", swiftModule: "Shop")), signature(frame("load()", swiftModule: "Basket")),
      signature(frame("store()", swiftModule: "Shop")), signature(frame("load()")), signature(frame(nil)),
      signature(nil),
      signature(frame("load()", swiftModule: "Shop"), service: "mail"),
      signature(nil, kind: .queue), signature(frame(nil), kind: .queue),
      signature(frame("load()", swiftModule: "Shop"), verdict: .noSingleCulprit),
      signature(nil, verdict: .noStacks), signature(frame("closure in load()", swiftModule: "Shop")),
      // Separators distinguish equal concatenations.
      signature(frame("pload()", swiftModule: "Sho")), signature(frame("load()Shop")),
    ]
    #expect(Set(all).count == all.count)
    #expect(all.allSatisfy { $0.count == 12 && $0.allSatisfy(\.isHexDigit) })
  }

  @Test(arguments: [
    ("closure #2 in closure #1 in load()", "closure in closure in load()"),
    ("shop::run()::{lambda(int)#3}::operator()", "shop::run()::{lambda(int)}::operator()"),
    ("shop::find::{closure#0}", "shop::find::{closure}"), ("run()::$_0::operator()", "run()::$_::operator()"),
    ("operator#", "operator#"), ("a # b", "a # b"), ("Cache<8>.get(_:)", "Cache<8>.get(_:)"),
    ("sha256", "sha256"), ("", ""),
    ("closure #1 in closure #14 in top-level code", "closure #1 in closure #14 in top-level code"),
  ])
  func removesCompilerNumbers(name: String, kept: String) {
    #expect(Signature.withoutNumbers(name) == kept)
  }

  @Test func isIncludedInReports() throws {
    var (stall, builder) = exampleStall()
    let report = builder.report(of: stall)
    #expect(report.signature == signature(frame("Catalog.rebuildIndex(for:)")))
    #expect(report.metadata["culprit.signature"] == report.signature)
    // Other samples with the same culprit.
    stall.samples.removeLast(2)
    stall.began = WallTime(nanosecondsSince1970: 1)
    #expect(builder.report(of: stall).signature == report.signature)
    let executable = Module(path: "/opt/shop/bin/shop", buildID: [0xab, 1], mappings: [])
    var recording = Recording(process: exampleProcess, modules: [executable])
    recording.process?.host = "web-1"
    let named = ReportBuilder(recording) { _ in [] }.report(of: stall)
    #expect(named.process?.host == "web-1" && named.process?.buildID == "ab01")
    #expect(named.metadata["host.name"] == "web-1" && report.metadata["host.name"] == nil)
  }
}

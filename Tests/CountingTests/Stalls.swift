import CulpritReports
import CulpritStallRecord
import SampleRecordings

@testable import CulpritCounting

/// A stall of the service "shop".
func counted(
  _ id: String = "1",
  _ function: String = "load()",
  seconds: Double = 1,
  at began: UInt64 = 0,
  host: String = "web-1",
  version: String = "ab",
  source: StallReport.Source = StallReport.Source(kind: .loop, name: "http"),
  cause: StallReport.Cause.Kind = .computing,
  line: Int = 1,
  labels: [String] = [],
  hasEnded: Bool = true
) -> CountedStall {
  let stall = Stall(
    "http",
    threshold: .milliseconds(500),
    began: WallTime(nanosecondsSince1970: began * 1_000_000_000),
    samples: [Sample(.seconds(seconds), 0)],
    duration: .seconds(seconds),
    hasEnded: hasEnded
  )
  let process = ObservedProcess(7, "/opt/shop", host: host)
  let stack = Stack(frames: [.programCounter(RuntimeAddress(1))], end: .outermost)
  let builder = ReportBuilder(Recording(process: process, stacks: [stack])) { _ in
    let place = SourceLocation(file: "/src/Store.swift", line: line)
    return [ResolvedFrame(function, swiftModule: "Shop", in: "/opt/shop", at: 1, place)]
  }
  var counted = CountedStall(builder.report(of: stall))
  counted.id = id
  counted.version = version
  counted.source = source
  counted.cause?.kind = cause
  counted.labels = labels
  return counted
}

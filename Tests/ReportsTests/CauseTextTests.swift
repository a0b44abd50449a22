import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritBlame
@testable import CulpritReports

@Suite struct CauseTextTests {
  private func cause(
    _ kind: StallReport.Cause.Kind,
    _ share: Double = 1,
    likely: Bool = false,
    _ subjects: [String] = [],
    code: String = "x"
  ) -> StallReport.Cause {
    StallReport.Cause(
      kind: kind,
      share: share,
      seconds: Seconds(.seconds(4) * share),
      sampleCount: 10,
      isLikely: likely,
      subjects: subjects.map {
        StallReport.Cause.Subject(
          code: code,
          text: $0,
          share: share / Double(subjects.count),
          seconds: Seconds(.seconds(4) * share / Double(subjects.count))
        )
      }
    )
  }

  private func lines(_ causes: [StallReport.Cause], _ change: (inout StallReport) -> Void = { _ in }) -> [String] {
    let (stall, builder) = exampleStall()
    var report = builder.report(of: stall)
    report.causes = causes
    change(&report)
    return CauseText.lines(report)
  }

  @Test func ordersCausesAndOmitsSmallOnes() {
    #expect(
      lines([cause(.lock, 0.9, ["a mutex"]), cause(.computing, 0.08, ["JSON", "text"]), cause(.file, 0.02)])
        == ["waiting for a mutex, 90 %, 3.60 s", "computing (JSON 4 %, text 4 %), 8 %, 320 ms"]
    )
    #expect(
      lines([cause(.congestion, 1, likely: true)]) == [
        "likely congestion: more work than the threads could do, 100 %, 4.00 s"
      ]
    )
    #expect(lines([cause(.unknown, 0.02)]) == ["unknown, 2 %, 80 ms"])
  }

  @Test(arguments: StallReport.Cause.Kind.all) func printsSharesOfSubjects(kind: StallReport.Cause.Kind) throws {
    var found = cause(kind, 0.8, ["a mutex", "JSON", "text"])
    found.subjects[0].share = 0.2
    found.subjects[0].seconds = Seconds(.milliseconds(800))
    found.subjects[1].share = 0.02
    found.subjects[1].seconds = Seconds(.milliseconds(80))
    found.subjects.removeLast()
    let (stall, builder) = exampleStall()
    var report = builder.report(of: stall)
    report.causes = [found]
    let line = try #require(CauseText.lines(report).first)
    #expect(!line.contains("JSON") && line.hasSuffix(", 80 %, 3.20 s"))
    #expect(line.contains("a mutex") == line.contains(" (a mutex 20 %, the rest 60 %), "), "\(line)")
    #expect(report.summary.hasSuffix("; " + line.dropLast(", 3.20 s".count)))
    #expect(report.metadata["culprit.cause.subject"] == "a mutex")
    #expect(report.metadata["culprit.cause.subject.share"] == "0.200")
    // A subject with nearly all of the time has no separate percentage.
    found.subjects[0].share = 0.77
    found.subjects[0].seconds = Seconds(.milliseconds(3080))
    #expect(!CauseText.what(found).contains("%"), "\(CauseText.what(found))")
  }

  @Test func explainsSleeps() {
    var polling = cause(.sleep, 1, ["sqlite3_step"])
    #expect(lines([polling]) == ["waiting in sqlite3_step, which sleeps and tries again, 100 %, 4.00 s"])
    func next(_ change: (inout StallReport) -> Void) -> String {
      let (stall, builder) = exampleStall()
      var report = builder.report(of: stall)
      change(&report)
      return report.firstStep(polling)
    }
    #expect(next { _ in }.contains("the library"))
    polling.subjects = []
    #expect(next { _ in }.contains("other work waits"))
    let task = StallReport.TaskTimes(suspendedSeconds: Seconds(.seconds(4)), readySeconds: Seconds(.zero))
    #expect(!next { $0.taskTimes = task }.contains("other work waits"))
  }

  @Test func explainsUnknownCause() {
    var found = cause(.unknown, 0.1, ["no stack", "no samples of that time"])
    for (place, share) in [0.08, 0.02].enumerated() {
      found.subjects[place].share = share
      found.subjects[place].seconds = Seconds(.seconds(4) * share)
    }
    #expect(lines([found]) == ["unknown (no stack 8 %, no samples of that time 2 %), 10 %, 400 ms"])
    #expect(lines([cause(.unknown, 1, ["futex"])]) == ["unknown (futex), 100 %, 4.00 s"])
  }

  @Test func showsEvidence() {
    func counted(_ change: (inout StallReport.Counts) -> Void) -> (inout StallReport) -> Void {
      var counts = StallReport.Counts(kernelFunctions: [])
      change(&counts)
      return { [counts] in $0.counts = counts }
    }
    #expect(
      lines([cause(.noCPU)], counted { $0.throttledSeconds = Seconds(.seconds(9)) })
        == ["runnable, no CPU, 100 %, 4.00 s: throttled by the control group for 4.00 s"]
    )
    #expect(
      lines(
        [cause(.noCPU)],
        counted {
          $0.runnableThreads = 7
          $0.cpuCount = 2
        }
      ) == ["runnable, no CPU, 100 %, 4.00 s: 7 runnable threads on 2 CPUs"]
    )
    #expect(
      lines(
        [cause(.file, 1, ["/srv/a"])],
        counted {
          $0.readBytes = 12_345_678
          $0.diskReadBytes = 4096
          $0.writtenBytes = 12
        }
      ) == ["reading or writing files (/srv/a), 100 %, 4.00 s: 12.3 MB read, 4.1 kB of it from a disk; 12 B written"]
    )
    #expect(
      lines([cause(.memory, 1, ["a page fault"])], counted { $0.majorFaults = 1 })
        == ["waiting for memory (a page fault), 100 %, 4.00 s: 1 page fault that needed reading"]
    )
    #expect(
      lines(
        [cause(.memory, 1)],
        counted {
          $0.refaultedBytes = 60_000_000
          $0.memoryLimitHits = 12
        }
      ) == [
        "waiting for memory, 100 %, 4.00 s: 60.0 MB of files read again; memory limit of the control group met 12 times"
      ]
    )
  }

  @Test(arguments: StallReport.Cause.Kind.all) func everyKindIsDocumented(kind: StallReport.Cause.Kind) throws {
    let page = try String(
      contentsOf: URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../../docs/causes.md"),
      encoding: .utf8
    )
    #expect(page.contains("| `\(kind.rawValue)` | "))
    #expect(page.contains("| \(kind.explanation) |"))
    #expect(!CauseText.what(cause(kind)).contains(kind.rawValue) || kind.rawValue.allSatisfy(\.isLowercase))
    #expect(CauseText.what(cause(kind)) != "a cause of the kind \(kind.rawValue)")
  }

  @Test func suggestsApplicableFirstStep() throws {
    let (stall, builder) = exampleStall()
    var report = builder.report(of: stall)
    report.waitChains = []
    report.causes = [cause(.lock, 1, ["a mutex"])]
    #expect(report.description.contains("NEXT      Find its owner"), "\(report)")
    report.notes.append(StallReport.Note(kind: .fileLock, title: "process 7", text: "/x", seconds: Seconds(.zero)))
    #expect(report.description.contains("NEXT      Look at its owner"), "\(report)")
    report.causes = [cause(.lock, 1, ["an actor"], code: AwaitedObject.actor.rawValue)]
    #expect(report.description.contains("NEXT      Keep long work out of the actor"), "\(report)")
  }

  @Test func countsOmittedOverlaps() {
    let (stall, builder) = exampleStall()
    var report = builder.report(of: stall)
    for number in 1...6 {
      report.notes.append(
        StallReport.Note(kind: .overlap, title: "section \"\(number)\"", text: "\(number)", seconds: Seconds(.zero))
      )
    }
    let text = report.text(width: 200)
    #expect(text.contains("see report 4\n") && !text.contains("see report 5"), "\(text)")
    #expect(text.contains("and 2 others: the report as JSON has all"))
  }

  @Test func printsAdviceOnRequest() {
    let (stall, builder) = exampleStall()
    var report = builder.report(of: stall)
    report.causes = [cause(.sleep, 0.51), cause(.deadlock, 0.49)]
    #expect(report.description.contains("\nNEXT      End the process"), "\(report)")
    report.causes = [cause(.lock, 0.8), cause(.sleep, 0.2), cause(.file, 0.01)]
    let text = report.text(width: 400, explains: true)
    #expect(text.contains("ADVICE    " + StallReport.Cause.Kind.lock.explanation))
    #expect(text.contains(StallReport.Cause.Kind.sleep.explanation))
    #expect(!text.contains(StallReport.Cause.Kind.file.explanation))
    #expect(!report.text(width: 400).contains("ADVICE"))
    #expect(report.metadata["culprit.cause"] == "lock" && report.metadata["culprit.cause.share"] == "0.800")
  }

  @Test func describesEverySubject() {
    for kind in Work.Kind.allCases { #expect(!kind.text.isEmpty) }
    for object in AwaitedObject.allCases { #expect(!object.text.isEmpty) }
  }
}

import CCulpritUnwind
import CulpritReports
import CulpritStallRecord
import Judges
import StackComparison
import Testing

@Suite struct CauseJudgeTests {
  private func counts(
    _ truth: CauseTruth,
    _ measured: CauseMeasures = CauseMeasures(wallSeconds: 1, cpuSeconds: 1, delaySeconds: 0),
    _ report: StallReport
  ) -> (judgement: CauseJudgement, faults: String?) {
    var judgement = CauseJudgement()
    let faults = judgement.judge(truth, measured, report)
    return (judgement, faults)
  }

  private let report = madeUpReport([("packOrders", 50)])

  @Test func acceptsRightReport() {
    let (judgement, faults) = counts(CauseTruth(name: "a", cause: .computing, culprit: "packOrders"), report)
    #expect(faults == nil && judgement.right == 1 && judgement.culpritRight == 1)
  }

  @Test func rejectsWrongCauseAndCulprit() {
    let (judgement, faults) = counts(CauseTruth(name: "a", cause: .lock, culprit: "sortOrders"), report)
    #expect(faults?.contains("computing") == true && judgement.right == 0 && judgement.culpritRight == 0)
  }

  @Test func rejectsMissingHolder() {
    let truth = CauseTruth(name: "a", cause: .computing, culprit: "packOrders", holder: "keeper")
    let (judgement, faults) = counts(truth, report)
    #expect(faults != nil && judgement.holders == 1 && judgement.holdersRight == 0)
  }

  @Test func rejectsInventedDeadlockAndWrongSum() {
    var report = report
    report.causes[0].kind = .init(rawValue: "deadlock")
    report.causes[0].seconds = Seconds(.milliseconds(900))
    let (judgement, _) = counts(CauseTruth(name: "a", cause: .computing, culprit: "packOrders"), report)
    #expect(judgement.falseDeadlocks == 1 && judgement.wrongSums == 1)
  }

  @Test func rejectsCulpritWithoutLocationOrActivity() {
    let truth = CauseTruth(name: "a", cause: .computing, culprit: "packOrders")
    var unplaced = report
    unplaced.culprit?.function.location = nil
    #expect(counts(truth, unplaced).judgement.unsound == 1)
    var silent = report
    silent.culprit?.cpuUse = nil
    silent.culprit?.waiting = nil
    #expect(counts(truth, silent).judgement.unsound == 1)
    // An activity without samples.
    var empty = report
    empty.culprit?.cpuUse = nil
    empty.culprit?.waiting?.of = 0
    #expect(counts(truth, empty).judgement.unsound == 1)
    #expect(counts(truth, report).judgement.unsound == 0)
  }

  @Test func rejectsMissingTextAndContender() {
    func unsound(_ texts: [String]?, _ contender: String?) -> Int {
      let truth = CauseTruth(name: "a", cause: .computing, culprit: "packOrders", contender: contender, texts: texts)
      return counts(truth, report).judgement.unsound
    }
    #expect(unsound(["computing"], nil) == 0 && unsound(["/sales.db is locked"], nil) == 1)
    #expect(unsound(nil, "sortOrders") == 1)
  }

  @Test func rejectsContradictions() {
    var idle = report
    idle.culprit?.cpuUse?.share = 0.1
    idle.culprit?.cpuUse?.runnableShare = 0
    #expect(counts(CauseTruth(name: "a", cause: .computing, culprit: "packOrders"), idle).judgement.unsound == 1)
    var waiting = report
    waiting.causes[0].kind = .lock
    waiting.culprit?.cpuUse?.runnableShare = 0
    #expect(counts(CauseTruth(name: "a", cause: .lock, culprit: "packOrders"), waiting).judgement.unsound == 1)
  }

  @Test func expectsMissingCPUIfThreadMeasuredIt() {
    let truth = CauseTruth(name: "a", cause: .computing, culprit: "packOrders", loadSensitive: true)
    let delayed = CauseMeasures(wallSeconds: 1, cpuSeconds: 0.3, delaySeconds: 0.7)
    #expect(counts(truth, delayed, report).judgement.right == 0)
  }

  private func counts(_ truth: CauseTruth, _ report: StallReport) -> (judgement: CauseJudgement, faults: String?) {
    counts(truth, CauseMeasures(wallSeconds: 1, cpuSeconds: 1, delaySeconds: 0), report)
  }
}

@Suite struct TaskJudgeTests {
  private let report = madeUpReport([("handle(_:_:) computeForLong(_:)", 50)], label: "request 3")

  @Test func requiresExactlyOneReportOfCulprit() {
    #expect(TaskJudgement.isNamed("computeForLong(_:)", in: [report]))
    #expect(!TaskJudgement.isNamed("finish()", in: [report]))
    #expect(!TaskJudgement.isNamed("computeForLong(_:)", in: []))
    #expect(!TaskJudgement.isNamed("computeForLong(_:)", in: [report, report]))
  }

  @Test(arguments: [
    ("computeForLong(_:)", "handle(_:_:)", "request 3", true), ("finish()", "handle(_:_:)", "request 3", false),
    ("computeForLong(_:)", "serve()", "request 3", false), ("computeForLong(_:)", "handle(_:_:)", "request 4", false),
  ])
  func requiresCulpritCallerAndLabel(function: String, caller: String, label: String, isRight: Bool) {
    #expect(TaskJudgement.Section(report, function: function, caller: caller, label: label).isRight == isRight)
  }

  @Test(arguments: [
    (["c", "b", "a"], false, TaskJudgement.Chain.whole), (["c", "b"], true, .part), ([], true, .part),
    (["c", "b"], false, .wrong), (["c", "x", "a"], true, .wrong), (["c", "b", "a", "x"], true, .wrong),
  ])
  func requiresOrderedCallers(found: [String], isIncomplete: Bool, judged: TaskJudgement.Chain) {
    #expect(TaskJudgement.Chain(found: found, expected: ["c", "b", "a"], isIncomplete: isIncomplete) == judged)
  }
}

@Suite struct BlackBoxJudgeTests {
  @Test func requiresRunAndOneHangOfCulprit() {
    let run = "run=77 killed\n"
    let hang = "hang=orders holdUp(_:) 812000000 10 0\n"
    let right = KillJudgement(run + hang, process: 77, culprit: "holdUp(_:)")
    #expect(right.isRunReported && right.hangs == 1 && right.duration == 812_000_000)
    #expect(KillJudgement(run + hang, process: 77, culprit: "other").duration == nil)
    #expect(KillJudgement(run + hang + hang, process: 77, culprit: "holdUp(_:)").duration == nil)
    #expect(KillJudgement(run, process: 77, culprit: "holdUp(_:)").hangs == 0)
    #expect(!KillJudgement(hang, process: 77, culprit: "holdUp(_:)").isRunReported)
  }
}

@Suite struct StackComparisonTests {
  private func compare(_ outside: [UInt64], _ end: unwind_end, _ signalled: [UInt64]) -> stack_comparison {
    var (one, other) = ([unwind_frame](), [unwind_frame]())
    for (addresses, frames) in [(outside, 0), (signalled, 1)] {
      let made = addresses.map { address in
        var frame = unwind_frame()
        frame.address = address
        return frame
      }
      if frames == 0 { one = made } else { other = made }
    }
    return one.withUnsafeMutableBufferPointer { one in
      other.withUnsafeMutableBufferPointer { other in
        var (from, by) = (unwind_stack(), unwind_stack())
        (from.frames, from.count, from.end) = (one.baseAddress, UInt32(one.count), end)
        (by.frames, by.count, by.end) = (other.baseAddress, UInt32(other.count), UNWIND_END_OUTERMOST)
        return stack_compare(&from, &by)
      }
    }
  }

  @Test func distinguishesEqualCutAndWrong() {
    let whole: [UInt64] = [100, 200, 300]
    #expect(compare(whole, UNWIND_END_OUTERMOST, whole) == STACK_EQUAL)
    #expect(compare([102, 200, 300], UNWIND_END_OUTERMOST, whole) == STACK_EQUAL)
    #expect(compare([100, 200], UNWIND_END_COPY, whole) == STACK_CUT)
    #expect(compare([100, 200], UNWIND_END_OUTERMOST, whole) == STACK_WRONG)
    #expect(compare([100, 202, 300], UNWIND_END_OUTERMOST, whole) == STACK_WRONG)
    #expect(compare([100, 200, 300, 400], UNWIND_END_OUTERMOST, whole) == STACK_WRONG)
  }
}

import CulpritStallRecord
import Testing

@testable import CulpritBlame

/// Suspended tasks whose work continues elsewhere.
@Suite struct AwaitedElsewhereTests {
  private static let section = "culprit.Watchdog.withSection(_:threshold:isolation:_:)"
  private static let body = "closure #1 in Timing.respond()"

  /// Returns the verdict on a task suspended in `stacks`, outermost function first.
  private func blame(suspendedIn stacks: [[String]], besides running: [[String]] = []) -> StallReport {
    var synthetic = Synthetic()
    var stall = synthetic.stall(stacks + running)
    for place in stacks.indices { stall.samples[place].activity = .suspended }
    for place in running.indices { stall.samples[stacks.count + place].activity = .running }
    return synthetic.blame(stall)
  }

  private func blame(suspendedIn stack: [String]) -> StallReport {
    blame(suspendedIn: Array(repeating: stack, count: 10))
  }

  @Test(arguments: [
    ["Timing.respond()", section, body, "d.get()"],
    // The stack has a witness instead of the function that opens the section.
    ["handle()", "d.next()", section, body, "d.next()", "d.get()"],
    // The closure is passed to a function that opens the section.
    ["Timing.respond()", "measured()", section, "closure #1 in measured()", body, "d.get()"],
    ["handle()", "Timing.respond()", section, "d.get()"],
  ]) func skipsFunctionsThatOpenSections(stack: [String]) throws {
    let blame = blame(suspendedIn: stack)
    let place = try #require(blame.suspendedIn, "\(blame.verdict)")
    #expect(blame.culprit == nil && blame.parts.isEmpty && blame.contenders.isEmpty)
    #expect(place.frame.function == "d.get()" && place.share == 1)
    #expect(place.sampleCount == 10 && place.waiting?.suspended == 10)
    #expect(blame.callers.first?.frame.function == stack.last { !$0.hasPrefix("d.") && !$0.hasPrefix("culprit.") })
    #expect(blame.causes.map(\.kind) == [.awaiting])
  }

  @Test func reportsOwnContinuationAsSuspensionPlace() {
    let blame = blame(suspendedIn: ["Timing.respond()", Self.section, Self.body])
    #expect(blame.suspendedIn?.frame.function == Self.body && blame.callers.isEmpty)
  }

  @Test(arguments: [
    (["Timing.respond()", section, body, "Backend.query()", "d.get()"], "Backend.query()"),
    (["Timing.respond()", section, body, "Courier.await()"], "Courier.await()"),
    (["Timing.respond()", section, body, "closure #1 in Backend.all()", "d.get()"], "closure #1 in Backend.all()"),
    // The body of the section is a function, not a closure.
    (["Timing.respond()", section, "Backend.query()", "d.get()"], "Backend.query()"),
    (["Backend.query()", "d.get()"], "Backend.query()"),
    // A sleeping function causes its own wait.
    (["Timing.respond()", section, body, "c.sleep(nanoseconds:)"], body),
  ]) func blamesOwnSuspendedFunction(stack: [String], culprit: String) {
    let blame = blame(suspendedIn: stack)
    #expect(blame.culpritName == culprit && blame.suspendedIn == nil && blame.culprit?.share == 1)
  }

  @Test func excludesSuspendedLibraries() {
    let blame = blame(suspendedIn: ["d.serve()", Self.section, "d.next()", "d.get()"])
    #expect(blame.culprit == nil && blame.suspendedIn?.frame.function == "d.get()")
    #expect(blame.callers.isEmpty)
  }

  @Test func excludesWaitFromOwnWork() {
    let suspended = ["Timing.respond()", Self.section, Self.body, "d.get()"]
    let running = ["Timing.respond()", Self.section, Self.body]
    func blame(_ waits: Int, _ works: Int) -> StallReport {
      self.blame(
        suspendedIn: Array(repeating: suspended, count: waits),
        besides: Array(repeating: running, count: works)
      )
    }
    let working = blame(4, 6)
    #expect(working.culpritName == Self.body && working.culprit?.time == .milliseconds(600))
    #expect(working.culprit?.waiting?.suspended == 0 && working.suspendedIn == nil)
    let waiting = blame(6, 4)
    #expect(waiting.culprit == nil && waiting.suspendedIn?.time == .milliseconds(600))
    #expect(waiting.contenderNames == [Self.body] && waiting.contenders.first?.time == .milliseconds(400))
    let worker = self.blame(
      suspendedIn: Array(repeating: suspended, count: 3),
      besides: Array(repeating: suspended + ["buildPage()"], count: 7)
    )
    #expect(worker.culpritName == "buildPage()" && worker.culprit?.time == .milliseconds(700))
  }
}

import CCulpritObserver
import Testing

@testable import Culprit

@Suite struct TaskLabelTests {
  @Test(arguments: [
    ("", ""), ("request 4711", "request 4711"), (String(repeating: "a", count: 56), String(repeating: "a", count: 56)),
    ("GET /" + String(repeating: "a", count: 52), "ET /" + String(repeating: "a", count: 52)),
    ("ä" + String(repeating: "a", count: 55), String(repeating: "a", count: 55)),
    ("ä" + String(repeating: "a", count: 54), "ä" + String(repeating: "a", count: 54)),
    ("€" + String(repeating: "a", count: 54), String(repeating: "a", count: 54)),
  ]) func keepsEndOfLongLabels(text: String, kept: String) {
    #expect(TaskLabel(text).label.string == kept)
  }

  @Test func childTasksInheritInnermostLabel() async {
    func label() -> String? { TaskLabel.current.map { $0.label.string } }
    #expect(label() == nil)
    await Watchdog.withLabel("outer") {
      #expect(label() == "outer")
      Watchdog.withLabel("inner") { #expect(label() == "inner") }
      async let childs = label()
      #expect(await childs == "outer")
      #expect(await Task { label() }.value == "outer")
      #expect(await Task.detached { label() }.value == nil)
    }
    #expect(label() == nil)
  }

  @Test func rethrowsErrorsOfBody() async {
    struct Thrown: Error {}
    await #expect(throws: Thrown.self) {
      try await Watchdog.withLabel("a") {
        await Task.yield()
        throw Thrown()
      }
    }
    #expect(throws: Thrown.self) { try Watchdog.withLabel("a") { throw Thrown() } }
    #expect(Watchdog.withLabel("a") { 7 } == 7)
  }
}

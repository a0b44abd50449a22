import TestSupport
import Testing

/// The observing path must neither allocate nor lock. Replacements of the allocator and of lock functions count the
/// calls.
@Suite(.ownThread) struct CountedCallsTests {
  @Test func observingPathNeverAllocatesOrLocks() throws {
    let child = try ChildProcess(ChildProcess.built("counted-process"), [])
    #expect(child.hasExited && child.status == 0, "\(child.output)")
    func number(_ name: String) throws -> Int { try #require(child.fact(name).flatMap { Int($0) }, "\(name)") }
    for path in ["handler", "monitor", "sampler"] {
      for call in ["allocations", "locks", "loader"] {
        #expect(try number("\(path).\(call)") == 0, "\(child.fact("\(path).first") ?? "")")
      }
    }
    // These numbers show that the observer was active and that the counters work.
    #expect(try number("sleeping.passive") > 5)
    #expect(try number("computing.signalled") > 5)
    #expect(try number("threads") >= 2)
    #expect(try number("recorder.allocations") > 0)
  }
}

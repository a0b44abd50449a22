import TestSupport
import Testing

/// The observing path neither allocates nor locks. An allocator and lock functions in front of the C library's count
/// the calls.
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
    // The observer was active, and the counters work.
    #expect(try number("sleeping.passive") > 5)
    #expect(try number("computing.signalled") > 5)
    #expect(try number("threads") >= 2)
    #expect(try number("recorder.allocations") > 0)
  }
}

import CulpritStallRecord
import Foundation
import TestSupport
import Testing

/// Stalls of threads that hold a lock which the watchdog, or whoever reports its findings, might need. Each in a
/// process of its own: what hangs in there is ended by an alarm and fails its test.
@Suite(.serialized, .ownThread) struct LocksHeldTests {
  /// What came of a stall.
  struct Outcome {
    var process: ChildProcess
    var stalls: [NamedStall]

    /// The samples of the source called `name`, none of which may be missing. Each must be complete, but for a few that
    /// `mayBeCut`, for a reason that is told.
    func samples(of name: String, mayBeCut: (NamedSample) -> Bool = { _ in false }) throws -> [NamedSample] {
      let found = try #require(stalls.first { $0.stall.source.name == name }, "\(process.output)")
      let (stall, samples) = (found.stall, found.samples)
      #expect(stall.hasEnded && stall.lostSamples == 0)
      // At least those before the threshold, if the machine has little time for the monitor.
      #expect(samples.count >= 8)
      #expect((samples.first?.sample.age ?? .zero) < stall.threshold)
      #expect((samples.last?.sample.age ?? .zero) > stall.threshold)
      // On a busy machine a thread that computes may not get a processor in time; that is then told.
      let captured = samples.filter { $0.sample.outcome != .noAnswer || $0.sample.activity != .running }
      let complete = captured.filter { $0.sample.outcome == .captured && $0.end == .outermost }
      // One may always be: where there are few, that is more than a tenth.
      #expect(complete.count >= 5 && captured.count - complete.count <= 1 + captured.count / 10)
      let wrong = captured.first { $0.end != .outermost && !mayBeCut($0) }
      #expect(wrong == nil)
      return complete
    }
  }

  func runScenario(_ scenario: String, computes: Bool, library: (String) throws -> String = { _ in "" }) throws
    -> Outcome
  {
    try withTemporaryDirectory { directory in
      let manner = computes ? "computing" : "waiting"
      let arguments = [scenario, manner, directory + "/stalls", try library(directory)]
      let process = try ChildProcess(ChildProcess.built("stalling-process"), arguments)
      try #require(process.hasExited && process.status == 0, "\(process)")
      #expect(process.fact("problems") == "[]")
      #expect(process.fact("dropped") == "0")
      return Outcome(process: process, stalls: try namedStalls(in: directory + "/stalls"))
    }
  }

  /// Every sample but a few shows `functions`: the turn begins and ends outside of them.
  func expect(_ samples: [NamedSample], toShow functions: [String]) {
    let others = samples.filter { !$0.shows(functions) }
    #expect(others.count <= 1 + samples.count / 10, "\(others.first.debugDescription)")
  }

  /// The recorder cannot allocate until the stall is over: the samples wait for it in the ring.
  @Test(arguments: [false, true]) func insideMalloc(computes: Bool) throws {
    let outcome = try runScenario("malloc", computes: computes)
    #expect(outcome.process.fact("inside") == "true")
    #expect(outcome.process.fact("contended") == "true")
    let samples = try outcome.samples(of: "main")
    expect(samples, toShow: ["workload_hold", "on_fault", "workload_hold_in_malloc", "stalling_process_main"])
  }

  @Test(arguments: [false, true]) func insideAnInitializer(computes: Bool) throws {
    let source = """
      #include <stdlib.h>
      static volatile int count;
      __attribute__((constructor)) void initializer_of_the_library(void) {
        void (*hold)(void) = (void (*)(void))strtoul(getenv("WORKLOAD_HOLD"), NULL, 16);
        hold();
        count++;
      }
      """
    let outcome = try runScenario("initializer", computes: computes) { directory in
      try compiledLibrary(source, name: "libslow", in: directory)
    }
    #expect(outcome.process.fact("inside") == "true")
    #expect(outcome.process.fact("contended") == "true")
    expect(
      try outcome.samples(of: "main"),
      toShow: ["workload_hold", "initializer_of_the_library", "workload_hold_in_initializer", "stalling_process_main"]
    )
  }

  @Test(arguments: [false, true]) func withTheLoadersListLocked(computes: Bool) throws {
    let outcome = try runScenario("modules", computes: computes)
    #expect(outcome.process.fact("contended") == "true")
    expect(
      try outcome.samples(of: "main"),
      toShow: ["workload_hold", "hold_once", "workload_hold_in_module_list", "stalling_process_main"]
    )
  }

  @Test(arguments: [false, true]) func withStandardOutputLocked(computes: Bool) throws {
    let outcome = try runScenario("stdio", computes: computes)
    #expect(outcome.process.fact("contended") == "true")
    expect(try outcome.samples(of: "main"), toShow: ["workload_hold", "workload_hold_stdio", "stalling_process_main"])
  }

  /// The library is unmapped when the stall is declared, and another one may be where it was; its functions keep their
  /// names.
  @Test func inALibraryThatIsGoneByThen() throws {
    let source = """
      #include <stdlib.h>
      static volatile int count;
      void plugin_works(void (*hold)(void)) {
        hold();
        count++;
      }
      """
    let outcome = try runScenario("plugin", computes: false) { directory in
      try compiledLibrary(source, name: "libplugin", in: directory)
    }
    #expect(outcome.process.fact("inside") == "true")
    let samples = try outcome.samples(of: "main")
    let inPlugin = samples.filter { $0.sample.age < .milliseconds(240) }
    #expect(!inPlugin.isEmpty)
    expect(inPlugin, toShow: ["workload_rest", "plugin_works", "workload_hold_in_plugin"])
    let after = samples.filter { !$0.names.contains("plugin_works") }
    #expect(after.contains { $0.shows(["workload_rest", "workload_hold_in_plugin"]) })
  }

  /// A debugger may be what makes threads stand still: the report says that there is one.
  @Test func whileADebuggerIsAttached() throws {
    let outcome = try runScenario("traced", computes: false)
    let tracer = try #require(outcome.process.fact("tracer").flatMap { Int32($0) })
    let stall = try #require(outcome.stalls.first).stall
    guard tracer != 0 else {
      #expect(stall.notes == [])
      try Test.cancel("no process may be a debugger here")
    }
    #expect(stall.notes == [StallNote(.debugger, text: "process \(tracer)")])
    #expect(outcome.process.output.contains("a debugger was attached: process "))
  }

  /// Both threads are watched: the one that makes the global, and the one that waits for it.
  @Test(arguments: [false, true]) func whileAGlobalIsMade(computes: Bool) throws {
    let outcome = try runScenario("once", computes: computes)
    #expect(outcome.process.fact("contended") == "true")
    #expect((outcome.process.fact("first"), outcome.process.fact("second")) == ("8", "9"))
    expect(
      try outcome.samples(of: "main"),
      toShow: [
        "workload_hold", "makeSlowly()", "useWhatIsSlowlyMade()",
      ]
    )
    // Who waits is read from outside; swift_once goes on to once_slow by a jump.
    let second = try #require(outcome.stalls.first { $0.stall.source.name == "second" })
    #expect(second.stall.hasEnded && second.stall.lostSamples == 0)
    let waiting = second.samples.filter { $0.sample.outcome == .captured && $0.sample.activity != .running }
    #expect(waiting.count >= 5)
    for sample in waiting {
      #expect(sample.end == .outermost, "\(sample)")
      #expect(sample.shows(["swift::threading_impl::once_slow", "awaitWhatIsSlowlyMade()"]), "\(sample)")
    }
  }

  /// The functions that an exception passes are on the stack without a gap, or gone without a gap. In the last
  /// instructions with which the unwinder hands it over to its handler the stack pointer is neither's: such a stack
  /// ends there.
  @Test func insideTheUnwinder() throws {
    let outcome = try runScenario("exceptions", computes: true)
    #expect(Int(outcome.process.fact("caught") ?? "").map { $0 > 1000 } == true)
    let samples = try outcome.samples(of: "main") { sample in
      (sample.end == .failed || sample.end == .unreadable)
        && sample.names.prefix(3).contains { $0.hasPrefix("_Unwind_") }
    }
    expect(samples, toShow: ["workload_throw_and_catch", "stalling_process_main"])
    for sample in samples {
      let levels = sample.names.filter { $0.hasPrefix("workload_throw_") && $0 != "workload_throw_and_catch" }
      let expected = (0..<levels.count).map { "workload_throw_\(16 - $0)" }
      #expect(levels.reversed() == expected, "\(sample.names)")
    }
    #expect(samples.count >= 50 && samples.count { $0.names.contains { $0.hasPrefix("_Unwind_") } } * 4 > samples.count)
  }

  /// Neither Dispatch nor Swift Concurrency has a thread left; their own stalls are seen, too.
  @Test(arguments: [false, true]) func withEveryPoolBlocked(computes: Bool) throws {
    let outcome = try runScenario("pools", computes: computes)
    #expect(outcome.process.fact("idle-workers") == "0")
    expect(try outcome.samples(of: "main"), toShow: ["workload_hold", "stalling_process_main"])
    for name in ["worker", "task"] {
      expect(try outcome.samples(of: name), toShow: ["waitInPool(_:)"])
    }
  }
}

import CulpritStallRecord
import Foundation
import TestSupport
import Testing

/// Stalls of threads that hold a lock which the watchdog or its handlers might need.
/// Each scenario runs in a separate process; an alarm ends a process that hangs.
@Suite(.serialized, .ownThread) struct LocksHeldTests {
  struct Outcome {
    var process: ChildProcess
    var stalls: [NamedStall]

    /// Returns the complete samples of `name`. Few can be incomplete, with stacks truncated as `mayBeCut` permits.
    func samples(of name: String, mayBeCut: (NamedSample) -> Bool = { _ in false }) throws -> [NamedSample] {
      let found = try #require(stalls.first { $0.stall.source.name == name }, "\(process.output)")
      let (stall, samples) = (found.stall, found.samples)
      #expect(stall.hasEnded && stall.lostSamples == 0)
      // On a busy machine, nearly all samples can precede the threshold.
      #expect(samples.count >= 8)
      #expect((samples.first?.sample.age ?? .zero) < stall.threshold)
      #expect((samples.last?.sample.age ?? .zero) > stall.threshold)
      // Excludes computing threads that got no CPU to answer in time, as on a busy machine.
      let captured = samples.filter { $0.sample.outcome != .noAnswer || $0.sample.activity != .running }
      let complete = captured.filter { $0.sample.outcome == .captured && $0.end == .outermost }
      // A tenth of the samples, but always one, can be incomplete.
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

  /// Expects `functions` in all stacks, except a few at the begin and end of the turn.
  func expect(_ samples: [NamedSample], toShow functions: [String]) {
    let others = samples.filter { !$0.shows(functions) }
    #expect(others.count <= 1 + samples.count / 10, "\(others.first.debugDescription)")
  }

  /// The thread holds malloc's lock, so samples must wait in the ring until the stall ends.
  @Test(arguments: [false, true]) func samplesInsideMalloc(computes: Bool) throws {
    let outcome = try runScenario("malloc", computes: computes)
    #expect(outcome.process.fact("inside") == "true")
    #expect(outcome.process.fact("contended") == "true")
    let samples = try outcome.samples(of: "main")
    expect(samples, toShow: ["workload_hold", "on_fault", "workload_hold_in_malloc", "stalling_process_main"])
  }

  @Test(arguments: [false, true]) func samplesInsideInitializer(computes: Bool) throws {
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

  /// The thread holds the lock of the loader's list or of standard output.
  @Test(arguments: [("modules", ["hold_once", "workload_hold_in_module_list"]), ("stdio", ["workload_hold_stdio"])])
  func samplesWithSharedLockHeld(scenario: String, holders: [String]) throws {
    for computes in [false, true] {
      let outcome = try runScenario(scenario, computes: computes)
      #expect(outcome.process.fact("contended") == "true")
      expect(try outcome.samples(of: "main"), toShow: ["workload_hold"] + holders + ["stalling_process_main"])
    }
  }

  /// The library is unmapped before the stall is declared; its functions must still be named.
  @Test func samplesInUnloadedLibrary() throws {
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

  @Test func notesAttachedDebugger() throws {
    let outcome = try runScenario("traced", computes: false)
    let tracer = try #require(outcome.process.fact("tracer").flatMap { Int32($0) })
    let stall = try #require(outcome.stalls.first).stall
    guard tracer != 0 else {
      #expect(!stall.notes.contains { $0.kind == .debugger })
      try Test.cancel("needs ptrace")
    }
    #expect(stall.notes.filter { $0.kind == .debugger } == [StallNote(.debugger, text: "process \(tracer)")])
    #expect(outcome.process.output.contains("a debugger was attached: process "))
  }

  @Test(arguments: [false, true]) func samplesDuringGlobalInitialization(computes: Bool) throws {
    let outcome = try runScenario("once", computes: computes)
    #expect(outcome.process.fact("contended") == "true")
    #expect((outcome.process.fact("first"), outcome.process.fact("second")) == ("8", "9"))
    expect(try outcome.samples(of: "main"), toShow: ["workload_hold", "makeSlowly()", "useWhatIsSlowlyMade()"])
    // The waiting thread's stack is read from outside. swift_once jumps to once_slow.
    let second = try #require(outcome.stalls.first { $0.stall.source.name == "second" })
    #expect(second.stall.hasEnded && second.stall.lostSamples == 0)
    let waiting = second.samples.filter { $0.sample.outcome == .captured && $0.sample.activity != .running }
    #expect(waiting.count >= 5)
    for sample in waiting {
      #expect(sample.end == .outermost, "\(sample)")
      #expect(sample.shows(["swift::threading_impl::once_slow", "awaitWhatIsSlowlyMade()"]), "\(sample)")
    }
  }

  /// Exceptions unwind 16 functions; stacks must show the remaining functions without gaps.
  /// A stack can be truncated in the unwinder's last instructions, where the stack pointer belongs to neither frame.
  @Test func samplesInsideUnwinder() throws {
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

  /// Stalls must be sampled although Dispatch and Swift concurrency have no free thread.
  @Test(arguments: [false, true]) func samplesWithAllPoolsBlocked(computes: Bool) throws {
    let outcome = try runScenario("pools", computes: computes)
    #expect(outcome.process.fact("idle-workers") == "0")
    expect(try outcome.samples(of: "main"), toShow: ["workload_hold", "stalling_process_main"])
    for name in ["worker", "task"] {
      expect(try outcome.samples(of: name), toShow: ["waitInPool(_:)"])
    }
  }
}

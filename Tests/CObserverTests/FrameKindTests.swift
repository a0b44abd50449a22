import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind
import Foundation
import Glibc
import Synchronization
import TestSupport
import TestWorkloads
import Testing

/// Stacks with each kind of frame are complete or marked as truncated. No caller is omitted or invented.
@Suite(.serialized, .usesObserver) struct FrameKindTests {
  @TemporaryDirectory private var directory: String

  /// Captures `thread` `count` times and checks each stack with `check`.
  private func sightings(of thread: ObservedThread, count: Int = 80, _ check: (Sighting) throws -> Void) throws {
    for _ in 0..<count {
      let seen = thread.signalled()
      try #require(seen.status == OBSERVER_CAPTURED)
      try check(seen)
    }
  }

  /// Checks that every stack of `body` is complete and shows `expected`. Returns the innermost functions' names.
  @discardableResult
  private func checkComplete(
    slot: Int,
    _ body: @escaping Workload,
    showing expected: [String],
    until isEnough: ([String]) -> Bool = { _ in true }
  ) throws -> [String] {
    var innermost: [String] = []
    try observing(slot: slot, body) { thread in
      while !thread.signalled().shows(expected) { usleep(1000) }
      // A thread that shares the test's core is often sampled where the last signal interrupted it.
      for _ in 0..<250 {
        try sightings(of: thread) { seen in
          try #require(seen.isComplete(showing: expected), "\(seen.names) \(seen.end)")
          innermost.append(seen.names[0])
        }
        if isEnough(innermost) { break }
      }
    }
    return innermost
  }

  @Test func unwindsFromVDSO() throws {
    // Functions of the vDSO have names only if its symbols are read.
    func isInVDSO(_ name: String) -> Bool { name != "__clock_gettime" && name != "frames_in_vdso" }
    let innermost = try checkComplete(slot: 3040, { frames_in_vdso($0) }, showing: ["frames_in_vdso"]) {
      $0.count(where: isInVDSO) > 8
    }
    #expect(innermost.count(where: isInVDSO) > 8, "\(Set(innermost))")
  }

  /// Samples rarely hit a stub, so the test moves a copy from the called function back to the stub.
  @Test func unwindsFromPLTStubs() throws {
    var inStub = 0
    try observing(slot: 3041, { frames_through_stub($0) }) { thread in
      for round in 0..<20_000 where round < 80 || inStub < 20 {
        var moved: [String] = []
        let seen = thread.signalled { copy in
          guard let stub = Self.stub(called: copy) else { return }
          var before = copy
          var framePointer: UInt64 = 0
          let host = cunwind_host()!
          cunwind_register(host, &before.registers, host.pointee.frame_pointer, &framePointer)
          cunwind_set_frame(host, &before.registers, stub, cunwind_sp(host, &before.registers), framePointer, true)
          let sighting = thread.sighting(of: before)
          moved = sighting.end == UNWIND_END_OUTERMOST ? sighting.names : ["cut"]
        }
        try #require(seen.isComplete(showing: ["frames_through_stub"]), "\(seen.names) \(seen.end)")
        guard !moved.isEmpty, seen.names[1] == "frames_through_stub" else { continue }
        try #require(Array(moved.dropFirst()) == Array(seen.names.dropFirst()), "\(moved)")
        inStub += 1
      }
    }
    #expect(inStub >= 20)
  }

  /// Returns the PLT stub that was called, if the stack pointer is at the return address of such a call.
  private static func stub(called copy: stack_copy) -> UInt64? {
    var registers = copy.registers
    var code = [UInt8](repeating: 0, count: Int(UNWIND_PROLOGUE_BYTES))
    var (returnAddress, target, slot): (UInt64, UInt64, UInt64) = (0, 0, 0)
    guard let host = cunwind_host(), clinux_memory_read(cunwind_sp(host, &registers), &returnAddress, 8),
      clinux_memory_read(returnAddress &- UInt64(UNWIND_CALL_BYTES), &code, Int(UNWIND_CALL_BYTES)),
      host.pointee.call_before(code, returnAddress, &target) == UNWIND_CALL_DIRECT,
      clinux_memory_read(target, &code, code.count), host.pointee.is_plt_stub(code, target, &slot)
    else { return nil }
    return target
  }

  @Test func unwindsFromProloguesAndEpilogues() throws {
    let innermost = try checkComplete(slot: 3042, { frames_mostly_prologue($0) }, showing: ["frames_mostly_prologue"]) {
      $0.contains("large_frame")
    }
    #expect(innermost.contains("large_frame"), "\(Set(innermost))")
  }

  /// The C++ unwinder overwrites one frame's registers and return address with another's. Only the last few
  /// instructions of the overwrite cannot be recognized.
  @Test func unwindsDuringExceptionHandling() throws {
    let throwing: Workload = { stop in while stop?.pointee == 0 { _ = workload_throw_and_catch(10_000_000) } }
    try observing(slot: 3072, throwing) { thread in
      var all = 0
      var cut = 0
      var inUnwinder = 0
      // On a busy machine a thread is often sampled right after it was scheduled.
      for _ in 0..<20 where inUnwinder < 300 {
        try sightings(of: thread, count: 3000) { seen in
          all += 1
          let levels = seen.names.filter { $0.hasPrefix("workload_throw_") && $0 != "workload_throw_and_catch" }
          inUnwinder += seen.names.contains { $0.hasPrefix("_Unwind_") } ? 1 : 0
          guard seen.end == UNWIND_END_OUTERMOST else { return cut += 1 }
          // Between two calls neither function is on the stack.
          let isBetweenCalls = !seen.names.contains { $0.hasPrefix("workload_throw_") || $0.hasPrefix("_Unwind_") }
          try #require(seen.names.contains("workload_throw_and_catch") || isBetweenCalls, "\(seen.names)")
          try #require(levels.reversed() == (0..<levels.count).map { "workload_throw_\(16 - $0)" }, "\(seen.names)")
        }
      }
      #expect(inUnwinder >= 300 && cut * 500 <= all, "\(inUnwinder) of \(all) were in the unwinder, \(cut) were cut")
    }
  }

  /// A final call that does not return, a CFA expression, and a function without unwind information.
  @Test(arguments: [
    Frames(3043, ["frames_spin", "leave_when_stopped", "call_at_the_end", "frames_end_in_call"]) {
      frames_end_in_call($0)
    },
    Frames(3044, ["frames_spin", "frames_by_expression"]) { frames_by_expression($0) },
    Frames(3045, ["frames_spin", "frames_bare_framed", "frames_no_cfi_framed"]) { frames_no_cfi_framed($0) },
  ])
  func unwindsFrames(_ frames: Frames) throws {
    try checkComplete(slot: frames.slot, frames.body, showing: frames.names)
  }

  /// The thread is captured passively. Only the frame record of the outermost frame can be the result of a call.
  @Test func keepsCallersWithoutUnwindInformation() throws {
    try observing(slot: 3069, { frames_no_cfi_blocked($0) }) { thread in
      for _ in 0..<20 {
        let seen = try thread.blocked()
        let expected = ["frames_bare_sleep", "frames_bare_middle", "frames_bare_outer", "frames_no_cfi_blocked"]
        try #require(seen.isComplete(showing: expected), "\(seen.names) \(seen.end)")
      }
    }
  }

  /// Functions without unwind information, in files and in generated code. An outer function's frame pointer would omit
  /// the callers in between.
  @Test(
    .enabled(if: frames_can_be_made(), "no code generator for this CPU"),
    arguments: [
      Frames(3046, ["frames_spin", "frames_bare_unframed", "frames_no_cfi_unframed"]) { frames_no_cfi_unframed($0) },
      Frames(3048, ["frames_spin", "?", "?", "frames_made_framed"]) { frames_made_framed($0) },
      Frames(3049, ["frames_spin", "?", "frames_made_unframed"]) { frames_made_unframed($0) },
    ]
  )
  func unwindsUndescribedFrames(_ frames: Frames) throws {
    try checkComplete(slot: frames.slot, frames.body, showing: frames.names)
  }

  @Test func unwindsLeafWithoutCFIOrFramePointer() throws {
    let innermost = try checkComplete(slot: 3047, { frames_no_cfi_leaf($0) }, showing: ["frames_no_cfi_leaf"]) {
      $0.count { $0 == "frames_bare_leaf" } > 40
    }
    #expect(innermost.count { $0 == "frames_bare_leaf" } > 40, "\(Set(innermost))")
  }

  /// The called function has unwind information and jumps to one without, so the call does not identify the function on
  /// the stack.
  @Test(
    .enabled(if: frames_can_be_made(), "no code generator for this CPU"),
    arguments: [
      Frames(3061, ["frames_bare_jumped_leaf", "frames_no_cfi_by_jump"]) { frames_no_cfi_by_jump($0) },
      Frames(3062, ["frames_bare_jumped_framed", "frames_no_cfi_framed_by_jump"]) { frames_no_cfi_framed_by_jump($0) },
      Frames(3063, ["frames_bare_goes_on", "frames_no_cfi_goes_on"]) { frames_no_cfi_goes_on($0) },
      Frames(3064, ["frames_bare_switch", "frames_no_cfi_switch"]) { frames_no_cfi_switch($0) },
    ]
  )
  func unwindsUndescribedFunctionsReachedByJump(_ frames: Frames) throws {
    let innermost = try checkComplete(slot: frames.slot, frames.body, showing: [frames.names[1]]) {
      $0.count { $0 == frames.names[0] } > 20
    }
    #expect(innermost.count { $0 == frames.names[0] } > 20, "\(Set(innermost))")
  }

  /// A workload, its slot and its functions.
  struct Frames: CustomTestStringConvertible, Sendable {
    let slot: Int
    let names: [String]
    let body: Workload
    var testDescription: String { names.joined(separator: " ") }

    init(_ slot: Int, _ names: [String], _ body: @escaping Workload) {
      (self.slot, self.names, self.body) = (slot, names, body)
    }
  }

  /// The start address identifies a frame's function if symbols are missing.
  @Test(.enabled(if: frames_can_be_made(), "no code generator for this CPU")) func findsFunctionStarts() throws {
    try observing(slot: 3065, { frames_no_cfi_framed($0) }) { thread in
      try sightings(of: thread, count: 20) { seen in
        for (frame, name) in zip(seen.frames, seen.names) where name != "?" {
          try #require(frame.offset != UNWIND_NO_OFFSET, "\(name)")
          let start = frame.address &- UInt64(frame.offset)
          try #require(thread.name(ofCodeAt: start) == name, "\(name)")
          // Assembly can begin before its unwind description.
          if name.hasPrefix("frames_") { try #require(thread.name(ofCodeAt: start &- 1) != name, "\(name)") }
        }
      }
    }
  }

  /// The outer frames of an incomplete stack come from an earlier stack of the same work.
  @Test(.enabled(if: frames_can_be_made(), "no code generator for this CPU")) func joinsStackWithEarlierStack()
    throws
  {
    try observing(slot: 3066, { frames_no_cfi_lost($0) }) { thread in
      var complete: [String]?
      var joined = 0
      let joining = thread.joining
      // Scheduling decides how often the thread is sampled where its stack is incomplete.
      for _ in 0..<50 where joined < 20 {
        try sightings(of: joining, count: 400) { seen in
          if seen.joinedFrom > 0 {
            try #require(seen.joinedFrom == 1 && seen.names == complete, "\(seen.names), not \(complete ?? [])")
            try #require(seen.end == UNWIND_END_OUTERMOST)
            joined += 1
          } else if seen.end == UNWIND_END_OUTERMOST {
            // The thread can also be in the caller.
            complete = seen.names[0] == "frames_bare_lost" ? seen.names : ["frames_bare_lost"] + seen.names
          } else {
            try #require(complete == nil, "\(seen.names)")
          }
        }
      }
      #expect(joined >= 20)
    }
  }

  /// The return address of a finished call remains on the stack, and must not be joined.
  @Test(.enabled(if: frames_can_be_made(), "no code generator for this CPU"))
  func doesNotJoinFinishedCalls() throws {
    try observing(slot: 3067, { frames_no_cfi_left_over($0) }) { thread in
      var joined = 0
      let joining = thread.joining
      for _ in 0..<50 where joined < 5 {
        try sightings(of: joining, count: 400) { seen in
          guard seen.joinedFrom > 0 else { return }
          try #require(seen.names[0] == "frames_bare_lost" && !seen.names.contains("frames_former"), "\(seen.names)")
          try #require(
            seen.shows(["frames_bare_lost", "frames_left_over", "frames_no_cfi_left_over"]),
            "\(seen.names)"
          )
          joined += seen.names[1] == "frames_left_over" ? 1 : 0
        }
      }
      #expect(joined >= 5)
    }
  }

  @Test(.enabled(if: frames_can_be_made(), "no code generator for this CPU"))
  func doesNotJoinOtherWorkItems() throws {
    try observing(slot: 3068, { frames_no_cfi_lost($0) }) { thread in
      var cut = 0
      let joining = thread.joining
      for round in 0..<20_000 where cut < 20 {
        let seen = joining.signalled(generation: UInt32(round))
        try #require(seen.status == OBSERVER_CAPTURED)
        try #require(seen.joinedFrom == 0)
        cut += seen.end == UNWIND_END_OUTERMOST ? 0 : 1
      }
      #expect(cut >= 20)
    }
  }

  @Test(.enabled(if: frames_can_be_made(), "no code generator for this CPU"))
  func unwindsGeneratedLeafCode() throws {
    var complete = 0
    try observing(slot: 3050, { frames_made_spin($0) }) { thread in
      for _ in 0..<50 where complete < 20 {
        try sightings(of: thread) { seen in
          try #require(seen.end == UNWIND_END_OUTERMOST, "\(seen.names) \(seen.end)")
          guard seen.names[0] == "?" else { return }
          try #require(seen.shows(["?", "frames_made_spin"]), "\(seen.names)")
          complete += 1
        }
      }
    }
    #expect(complete >= 20)
  }

  @Test(.ownThread) func stopsAtUnloadedLibrary() throws {
    let library = try load(try compiled(frameBytes: 256, name: "gone", in: directory))
    try observing(slot: 3051, { frames_leave(enter.body, $0) }) { thread in
      let whole = ["frames_spin", "leave_when_stopped", "enter_library", "frames_leave"]
      try #require(thread.signalled().isComplete(showing: whole))
      dlclose(library)
      observer_unwind_begin_sample()
      try sightings(of: thread, count: 20) { seen in
        try #require(seen.end == UNWIND_END_NO_MODULE)
        try #require(seen.names == ["frames_spin", "leave_when_stopped"], "\(seen.names)")
      }
    }
  }

  /// The new library has larger frames at the same address, with or without a build ID.
  @Test(.ownThread, arguments: ["sha1", "none"]) func usesTablesOfReplacedLibrary(buildID: String) throws {
    let whole = ["frames_spin", "leave_when_stopped", "enter_library", "frames_leave"]
    let formerPath = try compiled(frameBytes: 256, name: "former", in: directory, buildID: buildID)
    let latterPath = try compiled(frameBytes: 1024, name: "latter", in: directory, buildID: buildID)
    func replaced() throws -> UnsafeMutableRawPointer? {
      let former = try load(formerPath)
      observer_unwind_begin_sample()
      let address = dlsym(former, "enter_library")
      try checkComplete(slot: 3052, { frames_leave(enter.body, $0) }, showing: whole)
      dlclose(former)
      let latter = try load(latterPath)
      if dlsym(latter, "enter_library") == address { return latter }
      dlclose(latter)
      return nil
    }
    // Other tests map memory, so the loader can choose another address.
    var found: UnsafeMutableRawPointer?
    for _ in 0..<20 where found == nil { found = try replaced() }
    let latter = try #require(found)
    defer { dlclose(latter) }
    observer_unwind_begin_sample()
    try checkComplete(slot: 3053, { frames_leave(enter.body, $0) }, showing: whole)
  }

  /// Compiles a library whose function keeps `frameBytes` bytes on its stack during a call.
  private func compiled(frameBytes: Int, name: String, in directory: String, buildID: String = "none") throws -> String
  {
    let source = """
      void enter_library(void (*body)(const volatile int *), const volatile int *stop) {
        volatile char room[\(frameBytes)];
        room[0] = 1;
        body(stop);
        room[1] = room[0];
      }
      """
    let options = ["-O1", "-fomit-frame-pointer", "-Wl,--build-id=\(buildID)"]
    return try compiledLibrary(source, name: name, in: directory, options: options)
  }

  private func load(_ path: String) throws -> UnsafeMutableRawPointer {
    let library = try #require(dlopen(path, RTLD_NOW))
    let symbol = try #require(dlsym(library, "enter_library"))
    enter.symbol.store(Int(bitPattern: symbol), ordering: .releasing)
    return library
  }
}

/// The loaded library's function. A workload is a C function pointer, which captures nothing.
private let enter = LoadedFunction()

private final class LoadedFunction: Sendable {
  typealias Body =
    @convention(c) (
      (@convention(c) (UnsafePointer<Int32>?) -> Void)?, UnsafePointer<Int32>?
    ) -> Void
  let symbol = Atomic<Int>(0)
  var body: Body {
    // SAFETY: the symbol is a C function with these parameters.
    unsafeBitCast(symbol.load(ordering: .acquiring), to: Body.self)
  }
}

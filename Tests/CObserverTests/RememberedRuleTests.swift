import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind
import Glibc
import TestSupport
import TestWorkloads
import Testing

/// Unwinding with cached rules gives the stacks of newly read rules.
@Suite(.serialized, .usesObserver) struct RememberedRuleTests {
  /// Threads that compute in frames of every kind, captured by signal.
  private static let computing: [Workload] = [
    { frames_spin($0) }, { frames_in_vdso($0) }, { frames_through_stub($0) }, { frames_mostly_prologue($0) },
    { frames_end_in_call($0) }, { frames_by_expression($0) }, { frames_no_cfi_framed($0) },
    { frames_no_cfi_unframed($0) }, { frames_no_cfi_by_jump($0) }, { frames_no_cfi_switch($0) },
    { frames_no_cfi_lost($0) }, { workload_stay_in_handler(false, false, $0) },
    { workload_stay_in_handler(true, false, $0) }, { workload_raise_in_turn($0) },
  ]

  /// Unwinds copies with new and with cached rules, and compares the results.
  private struct Comparison {
    private let cold: OwnUnwinder
    private let warm: OwnUnwinder
    private(set) var complete = 0

    init() throws {
      (cold, warm) = (try OwnUnwinder(), try OwnUnwinder())
    }

    mutating func compare(_ copy: stack_copy) {
      cold.forget()
      warm.beginSample()
      let expected = cold.unwind(copy)
      #expect(warm.unwind(copy) == expected)
      #expect(warm.unwind(copy) == expected)
      complete += expected.end == UNWIND_END_OUTERMOST && expected.addresses.count > 2 ? 1 : 0
    }
  }

  @Test(arguments: computing.indices) func cachedRulesMatchOnRunningThreads(index: Int) throws {
    var comparison = try Comparison()
    try observing(slot: 3071, Self.computing[index]) { thread in
      var captures = 0
      while captures < 60 || comparison.complete < 10 {
        _ = thread.signalled { comparison.compare($0) }
        captures += 1
      }
    }
  }

  @Test(arguments: 0..<Int(WORKLOAD_BLOCKS.rawValue)) func cachedRulesMatchOnBlockedThreads(kind: Int) throws {
    var comparison = try Comparison()
    workload_prepare_block()
    blockedIn = workload_block(UInt32(kind))
    try observing(slot: 3073, { _ in workload_block(blockedIn) }) { thread in
      defer { workload_unblock() }
      while comparison.complete < 40 {
        _ = thread.passively { comparison.compare($0) }
        usleep(100)
      }
    }
  }

  /// Captures all threads of the process, most of which belong to libraries.
  @Test func cachedRulesMatchOnAllThreads() throws {
    var comparison = try Comparison()
    try prepareObserver()
    var tids: UnsafePointer<Int32>?
    try #require(clinux_task_start() == 0)
    for _ in 0..<20 {
      let count = clinux_task_list(&tids)
      for index in 0..<max(0, Int(count)) {
        guard let tid = tids?[index], tid != clinux_task_self() else { continue }
        guard let thread = observer_visit_begin(tid) else { continue }
        defer { observer_visit_end(thread) }
        var status = observer_thread_status()
        var copy: UnsafePointer<stack_copy>?
        let outcome = observer_capture_passively(thread, nil, 0, &status, &copy)
        guard outcome == OBSERVER_CAPTURED, let copy else { continue }
        comparison.compare(copy.pointee)
        observer_capture_release(copy)
      }
    }
  }

  @Test func reusesRulesInNextSample() throws {
    let unwinder = try OwnUnwinder()
    try observing(slot: 3070, { frames_spin($0) }) { thread in
      var reads: [Int] = []
      _ = thread.signalled { copy in
        for forgets in [true, false, true, false] {
          if forgets { unwinder.forget() } else { unwinder.beginSample() }
          let before = unwinder.reads
          _ = unwinder.unwind(copy)
          reads.append(unwinder.reads - before)
        }
      }
      try #require(reads.count == 4)
      #expect(reads[1] < reads[0] / 2 && reads[3] < reads[2] / 2, "\(reads)")
    }
  }
}

nonisolated(unsafe) private var blockedIn = WORKLOAD_READ

private final class OwnUnwinder {
  struct Found: Equatable {
    var addresses: [UInt64]
    var kinds: [UInt32]
    var offsets: [UInt32]
    var places: [UInt64]
    var end: unwind_end
  }

  var reads: Int { count.pointee }
  private let count = UnsafeMutablePointer<Int>.allocate(capacity: 1)
  private let memory = UnsafeMutableRawPointer.allocate(byteCount: cunwind_bytes(), alignment: 64)
  private let unwinder: OpaquePointer
  private let frames = UnsafeMutablePointer<unwind_frame>.allocate(capacity: Int(UNWIND_FRAMES_MAX))
  private let places = UnsafeMutablePointer<UInt64>.allocate(capacity: Int(UNWIND_FRAMES_MAX))

  init() throws {
    try prepareObserver()
    memory.initializeMemory(as: UInt8.self, repeating: 0, count: cunwind_bytes())
    count.initialize(to: 0)
    let process = unwind_process(
      read: { context, address, destination, length in
        // SAFETY: the context points to the count of an unwinder, which outlives its callbacks.
        context?.assumingMemoryBound(to: Int.self).pointee += 1
        return clinux_memory_read(address, destination, length)
      },
      find_module: { _, address, found in
        var module = clinux_module()
        guard clinux_module_find(address, &module) else { return false }
        found?.pointee = unwind_module(start: module.start, end: module.end, eh_frame_hdr: module.eh_frame_hdr)
        return true
      },
      context: count
    )
    unwinder = try #require(cunwind_create(memory, cunwind_host(), process))
  }

  deinit {
    count.deallocate()
    memory.deallocate()
    frames.deallocate()
    places.deallocate()
  }

  func forget() { cunwind_forget(unwinder) }
  func beginSample() { cunwind_begin_sample(unwinder) }

  func unwind(_ copy: stack_copy) -> Found {
    var copy = copy
    var stack = unwind_stack()
    stack.frames = frames
    stack.places = places
    cunwind_unwind(unwinder, &copy, &stack)
    let found = UnsafeBufferPointer(start: frames, count: Int(stack.count))
    return Found(
      addresses: found.map(\.address),
      kinds: found.map(\.kind),
      offsets: found.map(\.offset),
      places: Array(UnsafeBufferPointer(start: places, count: Int(stack.count))),
      end: stack.end
    )
  }
}

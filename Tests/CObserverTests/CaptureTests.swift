import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind
import Glibc
import TestSupport
import TestWorkloads
import Testing

@testable import Culprit

/// The call in which the test's thread blocks. Read by the thread.
nonisolated(unsafe) private var blockKind = WORKLOAD_READ

// SAFETY: one test writes the flag, once.
/// Set to 1 to let a thread unblock the signal.
nonisolated(unsafe) private let unblocksSignal = {
  let flag = UnsafeMutablePointer<Int32>.allocate(capacity: 1)
  flag.initialize(to: 0)
  return flag
}()

/// Serialized: only one thread can be captured at a time.
@Suite(.serialized, .usesObserver) struct CaptureTests {
  @Test func capturesCompleteStackOfRunningThread() throws {
    try observing(slot: 3000, { workload_spin(.max, $0) }) { thread in
      for _ in 0..<200 {
        let stack = thread.signalled()
        try #require(stack.status == OBSERVER_CAPTURED)
        let copy = stack.copy
        try #require(stack.names.contains("workload_spin"), "\(stack.names)")
        try #require(stack.end == UNWIND_END_OUTERMOST)
        #expect(stack.frames.first?.kind == UNWIND_PROGRAM_COUNTER.rawValue)
        #expect(stack.frames.dropFirst().allSatisfy { $0.kind == UNWIND_RETURN_ADDRESS.rawValue })
        #expect(!copy.truncated)
        #expect(copy.handler_ns > 0)
      }
    }
  }

  @Test func wipesCopiesAfterRelease() throws {
    try observing(slot: 3060, { workload_spin(.max, $0) }) { thread in
      let view = observer_slot_read(thread.slot)
      var first: UnsafePointer<stack_copy>?
      var second: UnsafePointer<stack_copy>?
      let timeout: UInt64 = 20_000_000_000
      try #require(observer_capture(view.thread, thread.slot, view.item, timeout, &first) == OBSERVER_CAPTURED)
      try #require(observer_capture(view.thread, thread.slot, view.item, timeout, &second) == OBSERVER_CAPTURED)
      let released = try #require(first).pointee
      let kept = try #require(second).pointee
      func isEmpty(_ copy: stack_copy) -> Bool {
        UnsafeBufferPointer(start: copy.stack, count: Int(copy.stack_bytes)).allSatisfy { $0 == 0 }
      }
      #expect(!isEmpty(released) && !isEmpty(kept))
      observer_capture_release(first)
      observer_capture_wipe()
      #expect(isEmpty(released))
      #expect(!isEmpty(kept))
      observer_capture_release(second)
      observer_capture_wipe()
      #expect(isEmpty(kept))
    }
  }

  /// In an epilogue, a popped register still counts as saved below the stack pointer. The process soon overwrites this
  /// memory, so the copy must contain it.
  @Test func unwindsEpiloguesFromRedZone() throws {
    try observing(slot: 3001, { workload_epilogues(.max, $0) }) { thread in
      var inEpilogue = 0
      for round in 0..<30_000 where round < 300 || inEpilogue < 50 {
        let stack = thread.signalled()
        try #require(stack.status == OBSERVER_CAPTURED)
        try #require(stack.end == UNWIND_END_OUTERMOST, "\(stack.names)")
        try #require(stack.names.contains("workload_epilogues"), "\(stack.names)")
        if stack.names.first == "workload_short_epilogue" { inEpilogue += 1 }
      }
      #expect(inEpilogue >= 50)
    }
  }

  @Test func marksTruncatedCopy() throws {
    try observing(slot: 3002, { workload_recurse(2000, .max, $0) }) { thread in
      let stack = thread.signalled()
      try #require(stack.status == OBSERVER_CAPTURED)
      let copy = stack.copy
      #expect(copy.truncated)
      #expect(stack.end == UNWIND_END_COPY)
      #expect(stack.names.filter { $0 == "workload_recurse" }.count > 50)
    }
  }

  @Test func keepsBothEndsOfDeepStack() throws {
    let depth = 2000
    try observing(slot: 3003, stackBytes: 2 << 20, { workload_recurse(2000, .max, $0) }) { thread in
      let stack = thread.signalled()
      try #require(stack.status == OBSERVER_CAPTURED)
      #expect(stack.end == UNWIND_END_OUTERMOST)
      #expect(stack.names.count == Int(UNWIND_FRAMES_MAX))
      let recursion = stack.names.count { $0 == "workload_recurse" }
      #expect(recursion + stack.leftOut >= depth && recursion + stack.leftOut <= depth + 1, "\(stack.leftOut)")
      // The inner half consists mostly of the recursion, and the last frames are the thread's start.
      let inner = stack.names.prefix(Int(UNWIND_FRAMES_INNER)).drop { $0 != "workload_recurse" }
      #expect(inner.count > Int(UNWIND_FRAMES_INNER) - 5, "\(stack.names.prefix(6))")
      #expect(inner.allSatisfy { $0 == "workload_recurse" })
      let outer = stack.names.suffix(from: Int(UNWIND_FRAMES_INNER)).drop { $0 == "workload_recurse" }
      #expect(!outer.isEmpty && !outer.contains("workload_recurse"), "\(outer)")
      #expect(stack.names.suffix(2).contains { $0.contains("start_thread") || $0.contains("clone") }, "\(outer)")
    }
  }

  /// Samplers share one buffer for deep stacks. While the buffer is in use, another sampler truncates its copy. The
  /// memory is returned to the kernel after use.
  @Test func copiesOneDeepStackAtOnce() throws {
    try observing(slot: 3006, stackBytes: 8 << 20, { workload_recurse(3000, .max, $0) }) { thread in
      let view = observer_slot_read(thread.slot)
      for _ in 0..<20 {
        var copy: UnsafePointer<stack_copy>?
        try #require(observer_capture(view.thread, thread.slot, view.item, 20_000_000_000, &copy) == OBSERVER_CAPTURED)
        let deep = try #require(copy)
        try #require(!deep.pointee.truncated && deep.pointee.stack_bytes > 1 << 20)
        let stack = thread.signalled()
        try #require(stack.status == OBSERVER_CAPTURED)
        let other = stack.copy
        try #require(other.truncated && stack.end == UNWIND_END_COPY && other.stack_bytes == 128 << 10)
        let (buffer, bytes) = (deep.pointee.stack, deep.pointee.stack_bytes)
        observer_capture_release(deep)
        observer_capture_wipe()
        var pages = [UInt8](repeating: 1, count: Int(bytes) / 4096)
        try #require(mincore(UnsafeMutableRawPointer(mutating: buffer), pages.count * 4096, &pages) == 0)
        try #require(pages.allSatisfy { $0 & 1 == 0 })
      }
    }
  }

  /// On a coroutine's stack the thread's bounds do not apply, so the copy ends with the mapping.
  @Test func copiesMappedPartOfCoroutineStack() throws {
    try observing(slot: 3004, { workload_spin_on_coroutine(64 << 10, .max, $0) }) { thread in
      for _ in 0..<50 {
        let stack = thread.signalled()
        try #require(stack.status == OBSERVER_CAPTURED)
        let copy = stack.copy
        #expect(stack.names.contains("workload_spin"))
        #expect(stack.names.contains("workload_coroutine_body"))
        #expect(copy.stack_bytes > 0)
      }
    }
  }

  /// The function has no unwind information and uses the frame pointer for data. Its stack must include the caller or
  /// be marked as incomplete.
  @Test func marksStackThatCannotBeUnwound() throws {
    try observing(slot: 3008, { workload_without_unwind_information(.max, $0) }) { thread in
      var bare = 0
      for round in 0..<10_000 where round < 100 || bare < 20 {
        let stack = thread.signalled()
        try #require(stack.status == OBSERVER_CAPTURED)
        guard stack.names.first == "workload_bare" else { continue }
        bare += 1
        #expect(stack.end != UNWIND_END_OUTERMOST || stack.names.contains("workload_without_unwind_information"))
      }
      #expect(bare >= 20)
    }
  }

  /// Blocked threads are captured without interrupting their system call.
  @Test(arguments: 0..<Int(WORKLOAD_BLOCKS.rawValue))
  func capturesBlockedThreadsWithoutSignal(kind: Int) throws {
    workload_prepare_block()
    blockKind = workload_block(UInt32(kind))
    try observing(slot: 3009, { _ in workload_block(blockKind) }) { thread in
      defer { workload_unblock() }
      let answered = observer_capture_answered()
      for _ in 0..<50 {
        let seen = try thread.blocked()
        try #require(seen.isComplete(showing: ["workload_block"]), "\(seen.names)")
      }
      #expect(workload_interrupted() == 0)
      #expect(observer_capture_answered() == answered)
    }
  }

  @Test func refusesPassiveCaptureOfRunningThread() throws {
    try observing(slot: 3010, { workload_spin(.max, $0) }) { thread in
      let seen = thread.passively()
      #expect(seen.status == OBSERVER_NOT_BLOCKED && seen.threadStatus.activity == OBSERVER_RUNNING)
    }
  }

  @Test func parsesThreadStatus() {
    func parse(_ text: String) -> observer_thread_status {
      let bytes = text.utf8.map { CChar(bitPattern: $0) }
      return observer_thread_status_parse(bytes, bytes.count)
    }
    #expect(parse("running\n").activity == OBSERVER_RUNNING)
    let call = parse("202 0x7f12 0x80 0x2 0x0 0x0 0xffffffff 0x7ffc01 0x7f55aa\n")
    #expect(call.activity == OBSERVER_IN_CALL)
    #expect(
      (call.call, call.arguments.0, call.arguments.5, call.sp, call.pc) == (
        202, 0x7f12, 0xffff_ffff, 0x7ffc01, 0x7f55aa
      )
    )
    let outside = parse("-1 0x7ffc01 0x7f55aa\n")
    #expect(outside.activity == OBSERVER_BLOCKED)
    #expect((outside.call, outside.sp, outside.pc) == (-1, 0x7ffc01, 0x7f55aa))
    for broken in ["", "-", "-1", "202 0x1 0x2", "run", "x y z", "0x", "202 0x7f12 0x80 0x2 0x0 0x0 0x0 0x7ffc01 \n"] {
      #expect(parse(broken).activity == OBSERVER_ACTIVITY_UNKNOWN, "\(broken)")
    }
  }

  /// The service has reset the handler. SIGPROF's default action would end the process.
  @Test func restoresResetHandler() throws {
    try observing(slot: 3011, { workload_spin(.max, $0) }) { thread in
      signal(SIGPROF, SIG_DFL)
      let stack = thread.signalled()
      try #require(stack.status == OBSERVER_CAPTURED)
      #expect(stack.names.contains("workload_spin"))
    }
  }

  @Test func detectsReplacedHandler() throws {
    try observing(slot: 3012, { workload_spin(.max, $0) }) { thread in
      let before = workload_signals()
      workload_install_handler()
      #expect(thread.signalled().status == OBSERVER_HANDLER_REPLACED)
      #expect(workload_signals() == before)
      signal(SIGPROF, SIG_DFL)
      #expect(observer_capture_start(128 << 10) == 0)
    }
  }

  @Test func forwardsForeignSignals() throws {
    workload_install_handler()
    defer {
      signal(SIGPROF, SIG_DFL)
      #expect(observer_capture_start(128 << 10) == 0)
    }
    workload_prepare_block()
    try observing(slot: 3013, { _ in workload_block(WORKLOAD_READ) }) { thread in
      defer { workload_unblock() }
      let view = observer_slot_read(thread.slot)
      let before = workload_signals()
      let answered = observer_capture_answered()
      var index: UInt32 = 0
      #expect(
        observer_capture_send(view.thread, thread.slot, view.item, OBSERVER_SEND_WHEN_RUNNING, &index)
          == OBSERVER_CAPTURED
      )
      let thread = observer_thread_id(view.thread)
      workload_signal_thread(thread, SIGPROF)
      while workload_signals() == before && observer_capture_answered() == answered { usleep(1000) }
      #expect(workload_signals() == before + 1)
      var copy: UnsafePointer<stack_copy>?
      if observer_capture_collect(index, &copy) == OBSERVER_CAPTURED { observer_capture_release(copy) }
    }
  }

  @Test func keepsMaskOfForeignHandler() throws {
    workload_install_masking_handler(SIGUSR1)
    defer {
      signal(SIGPROF, SIG_DFL)
      #expect(observer_capture_start(128 << 10) == 0)
    }
    try #require(observer_capture_start(128 << 10) == 0)
    let interrupted = workload_blocked_signals()
    workload_signal_thread(clinux_task_self(), SIGPROF)
    let expected = interrupted | 1 << UInt64(SIGUSR1 - 1) | 1 << UInt64(SIGPROF - 1)
    #expect(workload_mask_in_handler() == expected)
    #expect(workload_blocked_signals() == interrupted)
  }

  /// A service's handler might leave the copy by siglongjmp(3). Faults are not blocked.
  @Test func blocksOtherSignalsDuringCopy() throws {
    try #require(observer_capture_start(128 << 10) == 0)
    var action = sigaction()
    sigaction(SIGPROF, nil, &action)
    for signal in [SIGALRM, SIGTERM, SIGUSR1, SIGCHLD] { #expect(sigismember(&action.sa_mask, signal) == 1) }
    for signal in [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS] {
      #expect(sigismember(&action.sa_mask, signal) == 0)
    }
  }

  @Test func refusesEndedWorkItem() throws {
    try observing(slot: 3005, { workload_spin(.max, $0) }) { thread in
      #expect(thread.signalled(item: 1).status == OBSERVER_WORK_ITEM_OVER)
    }
  }

  @Test func abandonsThreadWithoutAnswer() throws {
    try observing(
      slot: 3006,
      { stop in
        var set = sigset_t()
        sigemptyset(&set)
        sigaddset(&set, SIGPROF)
        pthread_sigmask(SIG_BLOCK, &set, nil)
        workload_spin(.max, unblocksSignal)
        pthread_sigmask(SIG_UNBLOCK, &set, nil)
        workload_spin(.max, stop)
      }
    ) { thread in
      let view = observer_slot_read(thread.slot)
      var copy: UnsafePointer<stack_copy>?
      let late = observer_capture_late()
      try #require(observer_capture(view.thread, thread.slot, view.item, 30_000_000, &copy) == OBSERVER_NO_ANSWER)
      unblocksSignal.pointee = 1
      while observer_capture_late() == late { usleep(1000) }
      let stack = thread.signalled()
      try #require(stack.status == OBSERVER_CAPTURED)
      #expect(stack.names.contains("workload_spin"))
    }
  }

  /// A thread that sleeps all the time, but not in a wait for the signal, is sent one when it runs.
  @Test func capturesThreadThatSleepsOften() throws {
    try observing(slot: 3014, { stop in while stop?.pointee == 0 { usleep(1000) } }) { thread in
      let view = observer_slot_read(thread.slot)
      var index: UInt32 = 0
      let status = observer_capture_send(view.thread, thread.slot, view.item, OBSERVER_SEND_SEEN_RUNNING, &index)
      #expect(status == OBSERVER_CAPTURED)
      var copy: UnsafePointer<stack_copy>?
      if status == OBSERVER_CAPTURED, observer_capture_collect(index, &copy) == OBSERVER_CAPTURED {
        observer_capture_release(copy)
      }
    }
  }

  @Test func reportsExitedThread() throws {
    try #require(observer_capture_start(128 << 10) == 0)
    try withSlot(3007) { slot in
      var copy: UnsafePointer<stack_copy>?
      #expect(observer_capture(nil, slot, 1, 1_000_000, &copy) == OBSERVER_THREAD_GONE)
      #expect(copy == nil)
    }
  }

  /// A SIGPROF that the service sends must not end the process.
  @Test func survivesForeignSignal() throws {
    try #require(observer_capture_start(128 << 10) == 0)
    #expect(workload_has_handler())
    workload_raise()
  }

  @Test func canStartTwice() {
    #expect(observer_capture_start(128 << 10) == 0)
    #expect(observer_capture_start(16 << 10) == 0)
    #expect(observer_unwind_start() == nil)
    #expect(observer_unwind_start() == nil)
  }

  /// A normally linked libunwind would interpose the C++ runtime's unwinder and backtrace(3).
  @Test func doesNotInterposeServiceUnwinder() throws {
    try #require(observer_unwind_start() == nil)
    for name in ["_Unwind_RaiseException", "_Unwind_Backtrace", "backtrace"] {
      var file = [CChar](repeating: 0, count: 4096)
      workload_file_of_symbol(name, &file, 4096)
      let path = String(decoding: file.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
      #expect(!path.isEmpty && !path.contains("libunwind"), "\(name) comes from \(path)")
    }
  }

  /// /proc/self/maps gives the same modules as dl_iterate_phdr(3).
  @Test func findsModulesInProcessMaps() throws {
    let code = unsafeBitCast(workload_now_ns as @convention(c) () -> UInt64, to: UInt64.self)
    var (byLoader, byMaps) = (clinux_module(), clinux_module())
    try #require(clinux_module_start(true) == CLINUX_MODULES_BY_LOADER)
    try #require(clinux_module_find(code, &byLoader))
    try #require(clinux_module_start(false) == CLINUX_MODULES_BY_MAPS)
    defer { _ = clinux_module_start(true) }
    try #require(clinux_module_find(code, &byMaps))
    #expect(byMaps.start == byLoader.start && byMaps.eh_frame_hdr == byLoader.eh_frame_hdr)
    #expect(byMaps.end > code)
    #expect(!clinux_module_find(0x10, &byMaps))
    try observing(slot: 3013, { workload_spin(.max, $0) }) { thread in
      for _ in 0..<20 {
        let stack = thread.signalled()
        try #require(stack.status == OBSERVER_CAPTURED)
        try #require(stack.names.contains("workload_spin") && stack.end == UNWIND_END_OUTERMOST, "\(stack.names)")
      }
    }
  }
}

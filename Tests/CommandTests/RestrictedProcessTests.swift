import Foundation
import TestSupport
import Testing

/// Processes with restrictions or a shared SIGPROF. Each runs in its own process.
@Suite(.ownThread) struct RestrictedProcessTests {
  private let computing = "computing: computeForLong(), captured"
  private let asleep = "asleep: sleepForLong(), captured"
  private let asleepUnseen = "asleep: nobody, nothing captured: [\"noState\"]"

  /// Returns the lines that the program printed. Skips the test where the restrictions need missing privileges.
  private func lines(_ arguments: [String]) throws -> [String] {
    let outcome = try run("restricted-process", arguments)
    if outcome.status == 77 { try Test.cancel("\(outcome.out)") }
    #expect(outcome.status == 0, "\(outcome)")
    if !outcome.error.isEmpty { print(outcome.error) }
    return outcome.out.split(separator: "\n").map(String.init)
  }

  @Test func capturesAllThreadsWithoutRestrictions() throws {
    #expect(try lines([]) == [computing, asleep, "profiled: 0", "interrupted: false"])
  }

  /// Without process_vm_readv, memory is read through a memory file or /proc/self/mem.
  @Test func capturesWithoutProcessVMReadv() throws {
    #expect(
      try lines(["refuse:process_vm_readv"]) == [computing, asleep, "profiled: 0", "interrupted: false"]
    )
    let lines = try lines(["refuse:process_vm_readv", "refuse:memfd_create"])
    #expect(lines.filter { !$0.hasPrefix("limitation: ") } == [computing, asleep, "profiled: 0", "interrupted: false"])
  }

  /// fstat(2) replaces statx(2).
  @Test func closesDescriptorsWithoutStatx() throws {
    let lines = try lines(["descriptors", "refuse:statx", "refuse:newfstatat"])
    // Symbol files cannot be opened by then.
    #expect(lines.prefix(2).allSatisfy { $0.hasSuffix(", captured") }, "\(lines)")
    #expect(lines.contains("descriptors: few more"), "\(lines)")
  }

  /// systemd kills a service that makes a call outside SystemCallFilter=@system-service.
  @Test func runsWithinSystemServiceFilter() throws {
    let lines = try lines(["system-service", "tasks"])
    #expect(lines.contains(computing) && lines.contains(asleep) && lines.last == "interrupted: false", "\(lines)")
  }

  @Test func survivesLackOfReportMemory() throws {
    let outcome = try run("restricted-process", ["little-memory"])
    #expect(outcome.status == 0, "\(outcome)")
    let problem = "problem: a stall has no report, out of memory: "
    let line = outcome.out.split(separator: "\n").first { $0.hasPrefix(problem) }
    #expect(line?.contains(" bytes are left of RLIMIT_DATA or RLIMIT_AS, and a report may take ") == true, "\(outcome)")
    #expect(outcome.error.contains(/culprit: section "computing" was stuck for \d+\./), "\(outcome)")
  }

  /// EAGAIN also stands for a limit of threads.
  @Test func reportsLackOfThreadMemory() throws {
    let lines = try lines(["address-space:30"])
    let line = try #require(lines.count == 1 ? lines.first : nil, "\(lines)")
    #expect(line.hasPrefix("refused: cannot start a thread: Resource temporarily unavailable; "), "\(line)")
    #expect(line.hasSuffix(" bytes are left of RLIMIT_DATA or RLIMIT_AS, and a thread may take 142606336"), "\(line)")
  }

  /// The figure in docs/deploying.md, with an allocator that reserves no arena per thread.
  @Test func startsWithinDocumentedAddressSpace() throws {
    #expect(try lines(["one-arena", "address-space:200"]) == ["started"])
  }

  /// Memory is read through a pipe.
  @Test func capturesComputingThreadsThroughPipe() throws {
    let lines = try lines(["refuse:process_vm_readv", "refuse:memfd_create", "undumpable"])
    #expect(lines.first == computing)
    #expect(lines.dropFirst().first == asleepUnseen)
    #expect(
      lines.contains(
        "limitation: coroutine and alternate stacks cannot be read: memfd_create, process_vm_readv and /proc/self/mem are refused"
      )
    )
    #expect(lines.last == "interrupted: false")
  }

  /// The kernel hides the thread state of undumpable processes, so blocked threads are not sampled.
  @Test func capturesComputingThreadsWhenUndumpable() throws {
    let lines = try lines(["undumpable"])
    #expect(lines.first == computing)
    #expect(
      lines.dropFirst() == [
        asleepUnseen,
        "limitation: stacks of blocked threads cannot be read, because /proc/self/task/TID/syscall cannot be opened: "
          + "Permission denied",
        "profiled: 0", "interrupted: false",
      ]
    )
  }

  /// Each look at a thread takes an entry of a small table; a leaked entry would use the table up.
  @Test(arguments: [["queue"], ["queue", "undumpable"]]) func releasesEveryThreadVisit(arguments: [String]) throws {
    #expect(try lines(arguments).contains("visits: 0"))
  }

  @Test func releasesLockedMemory() throws {
    let lines = try lines(["restarts"])
    func number(_ prefix: String) throws -> Int {
      let line = try #require(lines.first { $0.hasPrefix(prefix) }, "\(lines)")
      return try #require(Int(line.filter(\.isNumber)))
    }
    let (first, last, child) = (try number("first: "), try number("last: "), try number("child exited with "))
    // Without a limit for unprivileged processes nothing can be locked.
    guard first > 0 else { return }
    #expect(last > first - 64, "\(lines)")
    #expect(child * 32 > first - 128, "\(lines)")
  }

  @Test func signalsThreadsDirectlyWithoutTimers() throws {
    for refused in [["refuse:timer_create"], ["refuse:timer_create", "refuse:rt_tgsigqueueinfo"]] {
      // The limitation allows the sleep to be interrupted.
      #expect(
        try lines(refused).filter { !$0.hasPrefix("interrupted: ") } == [
          computing, asleep,
          "limitation: a system call can return early if its thread is captured on entry, because timer_create is refused",
          "profiled: 0",
        ]
      )
    }
  }

  @Test(arguments: ["sched_setaffinity", "sched_setscheduler"]) func capturesWithoutSchedulingCalls(call: String) throws
  {
    #expect(try lines(["refuse:\(call)"]) == [computing, asleep, "profiled: 0", "interrupted: false"])
  }

  /// With an unlimited stack the C library places the main thread's stack next to the heap, where coroutine stacks are.
  /// A copy across the gap would read unmapped memory.
  @Test func boundsUnlimitedStack() throws {
    let program = builtProgram("restricted-process").path
    let outcome = try run(
      URL(fileURLWithPath: "/bin/bash"),
      ["-c", "ulimit -s unlimited || exit 77; exec \"$0\" coroutine", program]
    )
    if outcome.status == 77 { try Test.cancel("the limit cannot be raised here: \(outcome.error)") }
    #expect(outcome.status == 0, "\(outcome)")
    #expect(outcome.out == "coroutines: captured\ninterrupted: false\n", "\(outcome)")
  }

  /// With RLIMIT_SIGPENDING exhausted, signals arrive without siginfo and timers cannot be created.
  @Test func capturesWithoutPendingSignalQuota() throws {
    #expect(
      try lines(["no-pending"]) == [
        computing, asleep,
        "limitation: a system call can return early if its thread is captured on entry, because timer_create is refused",
        "profiled: 0", "interrupted: false",
      ]
    )
  }

  @Test func reportsTimersRefusedLater() throws {
    #expect(
      try lines(["no-pending-later"]) == [
        computing, asleep,
        "limitation: stacks of computing threads cannot be captured at present, because timer_create is refused: "
          + "RLIMIT_SIGPENDING might be used up", "profiled: 0", "interrupted: false",
      ]
    )
  }

  /// Memory is read with process_vm_readv.
  @Test func capturesStacksWithoutMemoryFiles() throws {
    let limitation =
      "limitation: stalls in a blocked page fault might have no stacks, because memfd_create is refused"
    #expect(try lines(["refuse:memfd_create"]) == [computing, asleep, limitation, "profiled: 0", "interrupted: false"])
  }

  @Test func namesComputingThreadsWithoutProc() throws {
    let lines = try lines(["no-proc"])
    #expect(lines.first == computing)
    #expect(lines.filter { $0.hasPrefix("limitation: ") }.count == 2)
    #expect(lines.last == "interrupted: false")
  }

  /// The earlier profiler's signals can interrupt a sleep.
  @Test func coexistsWithOtherProfiler() throws {
    #expect(try lines(["profiler"]).dropLast() == [computing, asleep, "profiled: many"])
  }

  @Test func reportsAndChainsReplacedHandler() throws {
    #expect(
      try lines(["replaced"]).dropLast() == [
        "replaced: [\"stacks of computing threads cannot be captured, because another handler has been installed for "
          + "SIGPROF\"]", computing, asleep, "profiled: many",
      ]
    )
  }

  @Test func forkedChildStartsOwnWatchdog() throws {
    #expect(
      try lines(["fork"]) == [
        "child: \(computing)", "child: \(asleep)",
        "child exited with 0", "parent: over the fork: workload_fork", "interrupted: false",
      ]
    )
  }
}

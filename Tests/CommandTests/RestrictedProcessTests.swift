import Foundation
import TestSupport
import Testing

/// Watchdogs under restrictions or with a shared SIGPROF. Each test runs a separate process.
@Suite(.ownThread) struct RestrictedProcessTests {
  private let computing = "computing: computeForLong(), captured"
  private let asleep = "asleep: sleepForLong(), captured"
  private let asleepUnseen = "asleep: nobody, nothing captured: [\"noState\"]"

  /// Returns the output of the program as lines. Skips the test if the restrictions need missing privileges.
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

  /// Without process_vm_readv(2), memory is read through a memory file or /proc/self/mem. Both stalls must be captured.
  @Test func capturesWithoutProcessVMReadv() throws {
    #expect(
      try lines(["refuse:process_vm_readv"]) == [computing, asleep, "profiled: 0", "interrupted: false"]
    )
    let lines = try lines(["refuse:process_vm_readv", "refuse:memfd_create"])
    #expect(lines.filter { !$0.hasPrefix("limitation: ") } == [computing, asleep, "profiled: 0", "interrupted: false"])
  }

  /// Without statx(2), the watchdog uses fstat(2), and must close its descriptors.
  @Test func closesDescriptorsWithoutStatx() throws {
    let lines = try lines(["descriptors", "refuse:statx", "refuse:newfstatat"])
    // Symbol files cannot be opened under this restriction.
    #expect(lines.prefix(2).allSatisfy { $0.hasSuffix(", captured") }, "\(lines)")
    #expect(lines.contains("descriptors: few more"), "\(lines)")
  }

  /// The watchdog must make no call outside SystemCallFilter=@system-service, for which systemd kills a service.
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

  /// EAGAIN can also mean a limit of threads, so the message must show the memory limits. Which limit leaves memory for
  /// everything but a thread depends on the machine. Under other limits the Swift runtime itself can end the process.
  @Test func reportsLackOfThreadMemory() throws {
    var refused: String?
    for limit in stride(from: 8, through: 40, by: 2) where refused == nil {
      let outcome = try run("restricted-process", ["address-space:\(limit)"])
      if outcome.out.hasPrefix("refused: cannot start a thread") { refused = outcome.out }
    }
    let line = try #require(refused)
    #expect(line.hasPrefix("refused: cannot start a thread: Resource temporarily unavailable; "), "\(line)")
    #expect(line.hasSuffix(" bytes are left of RLIMIT_DATA or RLIMIT_AS, and a thread may take 142606336\n"), "\(line)")
  }

  /// A watchdog must start within the address space given in docs/deploying.md, if the allocator has one arena.
  @Test func startsWithinDocumentedAddressSpace() throws {
    #expect(try lines(["one-arena", "address-space:200"]) == ["started"])
  }

  /// With all other ways refused, memory is read through a pipe. Computing threads must be captured.
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

  /// The kernel hides the thread state of undumpable processes, so only computing threads are captured.
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

  /// Each observation of a thread takes an entry of a small table. No entry must leak.
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
    // Without permission to lock memory, the numbers are 0.
    guard first > 0 else { return }
    #expect(last > first - 64, "\(lines)")
    #expect(child * 32 > first - 128, "\(lines)")
  }

  @Test func signalsThreadsDirectlyWithoutTimers() throws {
    for refused in [["refuse:timer_create"], ["refuse:timer_create", "refuse:rt_tgsigqueueinfo"]] {
      // Under this limitation the sleep can be interrupted.
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

  /// Without memfd_create(2), memory is read with process_vm_readv(2).
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

  /// The profiler's signals can interrupt the sleep.
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

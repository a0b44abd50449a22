import Foundation
import TestSupport
import Testing

/// A process that lacks something, or shares SIGPROF with somebody: what is observed there, and what the watchdog says
/// that it cannot do. Each in a process of its own.
@Suite(.ownThread) struct RestrictedProcessTests {
  private let computing = "computing: computeForLong(), captured"
  private let asleep = "asleep: sleepForLong(), captured"
  private let asleepUnseen = "asleep: nobody, nothing captured: [\"noLook\"]"

  /// The lines that the program printed. The test is skipped where the restrictions cannot be made, for want of
  /// privileges.
  private func lines(_ arguments: [String]) throws -> [String] {
    let outcome = try run("restricted-process", arguments)
    if outcome.status == 77 { try Test.cancel("\(outcome.out)") }
    #expect(outcome.status == 0, "\(outcome)")
    // Reports without a culprit: why a test failed.
    if !outcome.error.isEmpty { print(outcome.error) }
    return outcome.out.split(separator: "\n").map(String.init)
  }

  @Test func nothingIsLostWithoutRestrictions() throws {
    #expect(try lines([]) == [computing, asleep, "profiled: 0", "interrupted: false"])
  }

  /// A sandbox without process_vm_readv loses nothing; where there are no files in memory either, memory is read
  /// through /proc/self/mem.
  @Test func withoutProcessVMReadvNothingIsLost() throws {
    #expect(
      try lines(["refuse:process_vm_readv"]) == [computing, asleep, "profiled: 0", "interrupted: false"]
    )
    let lines = try lines(["refuse:process_vm_readv", "refuse:memfd_create"])
    #expect(lines.filter { !$0.hasPrefix("limitation: ") } == [computing, asleep, "profiled: 0", "interrupted: false"])
  }

  /// What a descriptor stands for is found out by fstat(2) where nothing newer is allowed: none is left open.
  @Test func withoutStatxDescriptorsAreClosed() throws {
    let lines = try lines(["descriptors", "refuse:statx", "refuse:newfstatat"])
    // Files of symbols cannot be opened by then, but stacks are taken.
    #expect(lines.prefix(2).allSatisfy { $0.hasSuffix(", captured") }, "\(lines)")
    #expect(lines.contains("descriptors: few more"), "\(lines)")
  }

  /// systemd's list of what services call (SystemCallFilter=@system-service) ends who calls anything else.
  @Test func whatServicesMayCallIsEnough() throws {
    let lines = try lines(["system-service", "tasks"])
    #expect(lines.contains(computing) && lines.contains(asleep) && lines.last == "interrupted: false", "\(lines)")
  }

  /// A service at its limit of memory is not ended by a report: that is told instead, to whoever asks and in a sentence.
  @Test func whereThereIsNoMemoryForAReportTheServiceLives() throws {
    let outcome = try run("restricted-process", ["little-memory"])
    #expect(outcome.status == 0, "\(outcome)")
    let problem = "problem: a stall is not reported for want of memory: "
    let told = outcome.out.split(separator: "\n").first { $0.hasPrefix(problem) }
    #expect(told?.contains(" bytes are left of RLIMIT_DATA or RLIMIT_AS, and a report may take ") == true, "\(outcome)")
    #expect(outcome.error.contains(/culprit: section "computing" was stuck for \d+\./), "\(outcome)")
  }

  /// Who looks for a limit of threads, which the error number stands for as well, would look in vain.
  @Test func whereThereIsNoRoomForThreadsThatIsSaid() throws {
    let lines = try lines(["address-space:48"])
    let line = try #require(lines.count == 1 ? lines.first : nil, "\(lines)")
    #expect(line.hasPrefix("refused: a thread cannot be started: Resource temporarily unavailable; "), "\(line)")
    #expect(
      line.hasSuffix(" bytes are left of RLIMIT_DATA or RLIMIT_AS, and a thread may take 142606336"),
      "\(line)"
    )
  }

  /// As docs/deploying.md says: what threads need, where the C library's allocator reserves nothing for each of them.
  @Test func theStartTakesSoMuchAddressSpaceAndNoMore() throws {
    #expect(try lines(["one-arena", "address-space:200"]) == ["started"])
  }

  /// Nothing else works either: memory is read through a pipe.
  @Test func withoutMemoryFileComputingThreadsAreSeen() throws {
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

  /// The kernel does not tell what threads of a process do that is not dumpable: blocked ones are left alone.
  @Test func inAnUndumpableProcessComputingThreadsAreSeen() throws {
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

  /// Whoever works for a queue is looked at for a moment. A thread that does not answer is left alone for longer and longer, and what
  /// is kept of each look would be used up soon if that were forgotten.
  @Test(arguments: [["queue"], ["queue", "undumpable"]]) func noLookAtAThreadIsForgotten(arguments: [String]) throws {
    #expect(try lines(arguments).contains("visits: 0"))
  }

  /// What a watchdog keeps in memory another one may keep when it has ended, and a child of the process keeps its own.
  @Test func memoryThatIsKeptIsLetGo() throws {
    let lines = try lines(["restarts"])
    func number(_ prefix: String) throws -> Int {
      let line = try #require(lines.first { $0.hasPrefix(prefix) }, "\(lines)")
      return try #require(Int(line.filter(\.isNumber)))
    }
    let (first, last, child) = (try number("first: "), try number("last: "), try number("child exited with "))
    // A machine without a limit for it allows it to whoever has no privileges, too; where nothing may be kept there is nothing to see.
    guard first > 0 else { return }
    #expect(last > first - 64, "\(lines)")
    #expect(child * 32 > first - 128, "\(lines)")
  }

  @Test func withoutTimersThreadsAreSignalledAtOnce() throws {
    for refused in [["refuse:timer_create"], ["refuse:timer_create", "refuse:rt_tgsigqueueinfo"]] {
      // Whether the sleep was cut short is left to chance here: that is what the limitation says.
      #expect(
        try lines(refused).filter { !$0.hasPrefix("interrupted: ") } == [
          computing, asleep,
          "limitation: a system call can return early when its thread enters it just when it is captured, because "
            + "timer_create is refused", "profiled: 0",
        ]
      )
    }
  }

  /// A sandbox that lets nobody say where threads run, or how.
  @Test(arguments: ["sched_setaffinity", "sched_setscheduler"]) func withoutSchedulingNothingIsLost(call: String) throws
  {
    #expect(try lines(["refuse:\(call)"]) == [computing, asleep, "profiled: 0", "interrupted: false"])
  }

  /// Where stacks may grow without end, the C library has the main thread's begin at the end of the heap, where coroutines have theirs
  /// by and by: a copy that went from there to the end of the main thread's would meet what is not there.
  @Test func aStackWithoutALimitEndsSomewhere() throws {
    let program = builtProgram("restricted-process").path
    let outcome = try run(
      URL(fileURLWithPath: "/bin/bash"),
      ["-c", "ulimit -s unlimited || exit 77; exec \"$0\" coroutine", program]
    )
    if outcome.status == 77 { try Test.cancel("the limit cannot be raised here: \(outcome.error)") }
    #expect(outcome.status == 0, "\(outcome)")
    #expect(outcome.out == "coroutines: captured\ninterrupted: false\n", "\(outcome)")
  }

  /// RLIMIT_SIGPENDING is used up: signals arrive without their information, timers cannot be made.
  @Test func withoutRoomForPendingSignalsThreadsAreSeen() throws {
    #expect(
      try lines(["no-pending"]) == [
        computing, asleep,
        "limitation: a system call can return early when its thread enters it just when it is captured, because "
          + "timer_create is refused", "profiled: 0", "interrupted: false",
      ]
    )
  }

  /// The same after the start.
  @Test func reportsTimersThatAreRefusedLater() throws {
    #expect(
      try lines(["no-pending-later"]) == [
        computing, asleep,
        "limitation: stacks of computing threads cannot be captured at the moment, because timer_create is refused: "
          + "RLIMIT_SIGPENDING may be used up", "profiled: 0", "interrupted: false",
      ]
    )
  }

  /// Without memfd_create libunwind is loaded into a namespace of its own, and memory is read by process_vm_readv.
  @Test func withoutMemoryFilesStacksAreSeen() throws {
    let limitation =
      "limitation: a stall in which a page fault is not answered may have no stacks, because no file in memory "
      + "(memfd_create) can be used"
    #expect(try lines(["refuse:memfd_create"]) == [computing, asleep, limitation, "profiled: 0", "interrupted: false"])
  }

  /// Without /proc modules come from the loader, and names are there all the same.
  @Test func withoutProcComputingThreadsAreSeenAndNamed() throws {
    let lines = try lines(["no-proc"])
    #expect(lines.first == computing)
    #expect(lines.filter { $0.hasPrefix("limitation: ") }.count == 2)
    #expect(lines.last == "interrupted: false")
  }

  /// A profiler that was there first gets its signals, and only those. They may well interrupt a sleep.
  @Test func aProfilerInTheSameProcessGoesOn() throws {
    #expect(try lines(["profiler"]).dropLast() == [computing, asleep, "profiled: many"])
  }

  /// One that comes later is not replaced under way, and told of; the next watchdog passes its signals on.
  @Test func aHandlerThatWasReplacedIsToldOfAndChained() throws {
    #expect(
      try lines(["replaced"]).dropLast() == [
        "replaced: [\"stacks of computing threads cannot be captured, because another handler has been installed for "
          + "SIGPROF\"]", computing, asleep, "profiled: many",
      ]
    )
  }

  /// A child after fork(2) has no watchdog, may start one, and ends neither the parent's nor its own in a hang.
  @Test func aChildHasNoHalfAliveWatchdog() throws {
    #expect(
      try lines(["fork"]) == [
        "child: \(computing)", "child: \(asleep)",
        "child exited with 0", "parent: over the fork: workload_fork", "interrupted: false",
      ]
    )
  }
}

import CulpritStallRecord
import FaultyDisks
import Foundation
import TestSupport
import Testing

/// The end of processes that are stuck for good, in ways that hold up one or the other part of what ends them.
@Suite(.serialized) struct TerminationTests {
  /// What became of a process that got stuck in a `way`.
  private struct End {
    var child: ChildProcess
    /// The thread that the core file shows first, and its signal; `nil` when there is no core file.
    var core: (thread: Int32, signal: Int16)?
    var files: [StallFile]
  }

  /// The end of a process that got stuck in a `way`. A shell does what is to `prepare` before, in a mount namespace of the
  /// process's own; `$0` is the process's directory.
  private func end(_ way: String, asInit: Bool = false, prepare: String? = nil) throws -> End {
    try withDirectory { directory in
      let service = [ChildProcess.built("policy-process"), "terminate", way, directory]
      let namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
      // The first process of a namespace is ended by no SIGALRM either.
      var command = asInit ? ["timeout", "--signal=KILL", "100"] + namespace + service : service
      if let prepare {
        command = ["unshare", "--mount", "sh", "-ec", "\(prepare); exec \"$@\"", directory] + service
      }
      let child = try ChildProcess("/usr/bin/env", command, environment: ["SWIFT_BACKTRACE": "enable=no"])
      let names = try FileManager.default.contentsOfDirectory(atPath: directory).filter { $0.hasPrefix("core") }
      let files = try stallFiles(in: directory).map { try read($0) }
      return End(child: child, core: try names.first.flatMap { try crash(in: "\(directory)/\($0)") }, files: files)
    }
  }

  /// The first thread of a core file: that which the signal was delivered to. Its note NT_PRSTATUS begins with the signal's
  /// information; the signal is at 12, the thread at 32 (struct elf_prstatus of 64-bit Linux).
  private func crash(in core: String) throws -> (thread: Int32, signal: Int16)? {
    let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: core))
    defer { try? file.close() }
    guard let head = try file.read(upToCount: 1 << 16) else { return nil }
    func number<Number: FixedWidthInteger>(_ offset: Int, _ type: Number.Type) -> Number {
      head.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: type) }
    }
    let table = Int(number(32, UInt64.self))
    for index in 0..<Int(number(56, UInt16.self)) {
      let header = table + index * 56
      guard number(header, UInt32.self) == 4 else { continue }
      let note = Int(number(header + 8, UInt64.self))
      #expect(number(note + 8, UInt32.self) == 1, "the first note is NT_PRSTATUS")
      let content = note + 12 + (Int(number(note, UInt32.self)) + 3) / 4 * 4
      return (number(content + 32, Int32.self), number(content + 12, Int16.self))
    }
    return nil
  }

  /// What holds for each process that is ended.
  private func expectAbort(_ end: End) {
    #expect(!end.child.hasExited && end.child.status == SIGABRT, "\(end.child)")
    #expect(
      numbersHidden(end.child.errors).contains(
        "culprit: ending process N (code NxNbadfNd): event loop \"http\" on thread N "
      ),
      "\(end.child)"
    )
    #expect(end.child.fact("ended") == nil)
  }

  /// `text` with an N for each number.
  private func numbersHidden(_ text: String) -> String { text.replacing(/[0-9]+/, with: "N") }

  /// Whether core files are made here, and where the process is.
  private static let hasCores =
    (try? String(contentsOfFile: "/proc/sys/kernel/core_pattern", encoding: .utf8))?.hasPrefix("core") == true

  /// How busy the machine is is left out where the kernel is not who tells it: a container's files may be answered by nobody
  /// any more, and opening these waits for good.
  @Test(.enabled(if: FaultyDisk.obstacle == nil, "a mount namespace of one's own takes root and unshare"))
  func aMachineThatDoesNotAnswerHoldsUpNoEnd() throws {
    let end = try end(
      "computing",
      prepare: """
        for file in stat loadavg; do mkfifo "$0/$file"; mount --bind "$0/$file" /proc/$file; done
        """
    )
    expectAbort(end)
    #expect(end.child.errors.contains("Culprit so far: "), "\(end.child)")
    #expect(end.child.errors.contains("Elapsed application CPU time"), "\(end.child)")
    #expect(!end.child.errors.contains("Elapsed total CPU time"), "\(end.child)")
  }

  /// SIGABRT is delivered to the stuck thread, whether it computes, waits, blocks SIGABRT (as those of Dispatch do), or the
  /// process has a handler for it.
  @Test(arguments: ["computing", "waiting", "dispatch", "caught", "blocked"])
  func theStuckThreadGetsTheSignal(way: String) throws {
    let end = try end(way)
    expectAbort(end)
    let function = way == "computing" || way == "caught" ? "computeForGood" : "waitForGood"
    #expect(end.child.errors.contains("Culprit so far: "))
    if function == "waitForGood" { #expect(end.child.errors.contains("Culprit so far: \(function)()")) }
    // The record is on the disk, and has no end.
    #expect(end.files.count == 1 && end.files.first?.recording.stalls.first?.hasEnded == false)
    #expect(end.child.fact("report")?.hasSuffix("under way") == true)
    if Self.hasCores {
      #expect(end.core?.signal == Int16(SIGABRT))
      #expect(end.core.map { "\($0.thread)" } == end.child.fact("stuck"))
    }
  }

  /// The kernel protects process 1 of a container (`ENTRYPOINT`) from SIGABRT, and from SIGKILL that comes from inside: a fault
  /// ends it, on the stuck thread where that is possible.
  @Test(
    .enabled(if: geteuid() == 0),
    arguments: ["computing", "waiting", "dispatch", "caught", "deafest", "blocked", "silent"]
  )
  func process1IsEnded(way: String) throws {
    let end = try end(way, asInit: true)
    // What `timeout` and `unshare` make of the end of the service by SIGILL.
    #expect(!end.child.hasExited && end.child.status == SIGILL || end.child.status == 128 + SIGILL, "\(end.child)")
    #expect(end.child.errors.contains("culprit: ending process 1 (code 0x8badf00d)"), "\(end.child)")
    #expect(end.child.fact("ended") == nil)
    #expect(end.files.count == 1 && end.files.first?.recording.stalls.first?.hasEnded == false)
    if Self.hasCores {
      #expect(end.core?.signal == Int16(SIGILL))
      if way != "deafest" { #expect(end.core.map { "\($0.thread)" } == end.child.fact("stuck")) }
    }
  }

  /// A thread that blocks every signal cannot be made to deliver one; the process ends all the same.
  @Test func aThreadThatBlocksEverythingSavesNobody() throws {
    let end = try end("deafest")
    expectAbort(end)
    if Self.hasCores { #expect(end.core?.signal == Int16(SIGABRT)) }
  }

  /// Where memory is scarce the process ends as it is to, and not for want of memory for a report.
  @Test func whereMemoryIsScarceThereIsNoReport() throws {
    let end = try end("memory")
    expectAbort(end)
    let errors = numbersHidden(end.child.errors)
    #expect(errors.contains("culprit: event loop \"http\" was stuck for "), "\(end.child)")
    #expect(errors.contains("; there is no memory for a report\n"), "\(end.child)")
    #expect(errors.contains("Who is to blame could not be told for want of memory.\n"), "\(end.child)")
    #expect(end.files.count == 1 && end.child.fact("report") == nil)
  }

  @Test func theReasonHasTheStatisticsThatPeopleKnow() throws {
    let end = try end("asked")
    expectAbort(end)
    let child = end.child
    let reason = try #require(child.fact("reason"))
    #expect(child.errors.hasPrefix(reason))
    #expect(
      numbersHidden(reason).contains(
        """
        has been stuck for N.N s and exhausted its allowance of N.N s. Elapsed total CPU time (seconds): N.N (user N.N, system N.N), \
        N % CPU. Elapsed application CPU time (seconds): N.N (user N.N, system N.N), N % CPU. The thread's own: N.N, N % of one. \
        These are of the last N.N s, on N processors. Culprit so far:\u{20}
        """
      ),
      "\(reason)"
    )
    #expect(child.fact("source") == "event loop http" && child.fact("thread") == child.fact("stuck"))
    #expect(child.fact("threshold") == "0.6 seconds" && child.fact("enough") == "true")
    #expect(child.fact("code") == "2343432205" && child.fact("machine") == "true", "\(child)")
    #expect(child.fact("culprit") != nil && child.fact("culprit") != "nobody")
  }

  /// With the allocator's lock held nobody can say who is to blame; the process ends, and the reason is given.
  @Test func theAllocatorsLockHoldsUpNothing() throws {
    let end = try end("malloc")
    expectAbort(end)
    #expect(end.child.errors.contains("Who is to blame could not be told in time.\n"))
    if Self.hasCores { #expect(end.core.map { "\($0.thread)" } == end.child.fact("stuck")) }
  }

  /// Neither a disk that never answers, nor pools without a free thread, nor a handler of reports, nor one of the end's that never returns.
  @Test(arguments: ["disk", "pools", "deaf", "silent"])
  func whatIsWaitedForHasItsLimit(way: String) throws {
    let end = try end(way)
    expectAbort(end)
    #expect(end.child.errors.contains("Culprit so far: "))
  }

  /// Naming that goes on is waited for, also where the machine has little time for it.
  @Test func whoIsToBlameIsToldOnABusyMachine() throws {
    let end = try end("starved")
    expectAbort(end)
    #expect(end.child.errors.contains("Culprit so far: computeForGood()"), "\(end.child)")
    #expect(end.child.fact("report")?.hasSuffix("under way") == true, "\(end.child)")
  }

  /// The thread that is to end the process is held up itself, by a standard error that does not take what it says: the kernel ends
  /// the process.
  @Test(arguments: [false, true]) func whoIsHeldUpKeepsNobodyAlive(asInit: Bool) throws {
    if asInit, geteuid() != 0 { try Test.cancel("a process 1 of its own takes root") }
    let end = try end("errors", asInit: asInit)
    let signal = asInit ? SIGILL : SIGKILL
    #expect(!end.child.hasExited && end.child.status == signal || end.child.status == 128 + signal, "\(end.child)")
    #expect(end.child.fact("ended") == nil && !end.child.errors.contains("0x8badf00d"), "\(end.child)")
  }

  /// A thread that is needed from now on may not be there for the asking, as in a sandbox that was entered meanwhile. Nobody
  /// is ended then, and it is said why.
  @Test func aThreadThatCannotBeStartedIsToldOf() throws {
    let child = try ChildProcess(
      ChildProcess.built("policy-process"),
      ["terminate-without-threads"],
      environment: ["SWIFT_BACKTRACE": "enable=no"]
    )
    if child.status == 77 { try Test.cancel("system calls cannot be refused here") }
    #expect(child.hasExited && child.status == 0 && child.fact("ended") == "true", "\(child)")
    #expect(child.errors.contains("culprit: a thread cannot be started: Operation not permitted\n"), "\(child)")
  }

  /// Neither a report that nobody takes nor another handler, of this end or of one before, keeps a handler from being asked.
  @Test(arguments: ["alone", "beside-stuck"]) func handlersAreAskedWhateverElseIsHeldUp(way: String) throws {
    let child = try ChildProcess(
      ChildProcess.built("policy-process"),
      ["report-to-full-pipe", way],
      environment: ["SWIFT_BACKTRACE": "enable=no"]
    )
    #expect(child.hasExited && child.status == 0 && child.output == "asked=true\nasked=true\nended=true\n", "\(child)")
  }

  /// A handler that ends what is stuck keeps the process, whatever it returns and however little time is left.
  @Test func workThatEndsBeforeTheEndKeepsTheProcess() throws {
    let child = try ChildProcess(
      ChildProcess.built("policy-process"),
      ["terminate-released"],
      environment: ["SWIFT_BACKTRACE": "enable=no"]
    )
    #expect(child.hasExited && child.status == 0 && child.fact("released") == "10", "\(child)")
    let lines = child.errors.split(separator: "\n")
    #expect(lines.count { $0 == "culprit: the work has ended after all; the process goes on" } == 10, "\(child)")
  }

  @Test func whoHandlesItKeepsTheProcess() throws {
    let end = try end("handled")
    #expect(end.child.hasExited && end.child.status == 0, "\(end.child)")
    #expect(end.child.fact("ended") == "true")
    // Once: what is handled stays handled.
    #expect(end.child.errors.components(separatedBy: "0x8badf00d").count == 2)
    #expect(end.child.errors.hasSuffix("culprit: the end was prevented by a handler; the process goes on\n"))
    #expect(end.files.first?.recording.stalls.first?.hasEnded == true)
  }
}

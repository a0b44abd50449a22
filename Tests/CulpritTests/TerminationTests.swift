import CulpritStallRecord
import FaultyDisks
import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct TerminationTests {
  private struct End {
    var child: ChildProcess
    var core: (thread: Int32, signal: Int16)?
    var files: [StallFile]
  }

  /// Runs scenario `way`, after `prepare` in a shell with a separate mount namespace and the directory as `$0`.
  private func end(_ way: String, asInit: Bool = false, prepare: String? = nil) throws -> End {
    try withTemporaryDirectory { directory in
      let service = [ChildProcess.built("policy-process"), "terminate", way, directory]
      let namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
      // Uses timeout(1): SIGALRM does not end the first process of a namespace.
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

  /// Returns the first thread of a core file and its signal: offsets 32 and 12 of struct elf_prstatus (64-bit Linux).
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
      #expect(number(note + 8, UInt32.self) == 1, "the first note is not NT_PRSTATUS")
      let content = note + 12 + (Int(number(note, UInt32.self)) + 3) / 4 * 4
      return (number(content + 32, Int32.self), number(content + 12, Int16.self))
    }
    return nil
  }

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

  private func numbersHidden(_ text: String) -> String { text.replacing(/[0-9]+/, with: "N") }

  private static let hasCores =
    (try? String(contentsOfFile: "/proc/sys/kernel/core_pattern", encoding: .utf8))?.hasPrefix("core") == true

  /// Termination must not wait for files of /proc that block, as in a container with a hanging server.
  @Test(.enabled(if: FaultyDisk.obstacle == nil, "needs root, loop devices and mkfs.ext4"))
  func endsWithoutMachineStatisticsWhenProcHangs() throws {
    let end = try end(
      "waiting",
      prepare: """
        for file in stat loadavg; do mkfifo "$0/$file"; mount --bind "$0/$file" /proc/$file; done
        """
    )
    expectAbort(end)
    #expect(end.child.errors.contains("Culprit so far: "), "\(end.child)")
    #expect(end.child.errors.contains("Elapsed application CPU time"), "\(end.child)")
    #expect(!end.child.errors.contains("Elapsed total CPU time"), "\(end.child)")
  }

  @Test(arguments: ["computing", "waiting", "dispatch", "caught", "blocked"])
  func deliversSIGABRTToStuckThread(way: String) throws {
    let end = try end(way)
    expectAbort(end)
    // On a busy machine, a computing thread might get no CPU before a simulated deadline.
    let isComputing = way == "computing" || way == "caught"
    #expect(isComputing || end.child.errors.contains("Culprit so far: waitForGood()"), "\(end)")
    #expect(end.files.count == 1 && end.files.first?.recording.stalls.first?.hasEnded == false)
    #expect(end.child.fact("report")?.hasSuffix("under way") == true)
    if Self.hasCores {
      #expect(end.core?.signal == Int16(SIGABRT))
      #expect(end.core.map { "\($0.thread)" } == end.child.fact("stuck"))
    }
  }

  /// The kernel protects process 1 of a container from SIGABRT and from its own SIGKILL, but not from a fault.
  @Test(.needsNamespaces, arguments: ["computing", "waiting", "dispatch", "caught", "deafest", "blocked", "silent"])
  func endsProcess1(way: String) throws {
    let end = try end(way, asInit: true)
    // `timeout` and `unshare` pass the signal on as their own or as a status.
    #expect(!end.child.hasExited && end.child.status == SIGILL || end.child.status == 128 + SIGILL, "\(end.child)")
    #expect(end.child.errors.contains("culprit: ending process 1 (code 0x8badf00d)"), "\(end.child)")
    #expect(end.child.fact("ended") == nil)
    #expect(end.files.count == 1 && end.files.first?.recording.stalls.first?.hasEnded == false)
    if Self.hasCores {
      #expect(end.core?.signal == Int16(SIGILL))
      if way != "deafest" { #expect(end.core.map { "\($0.thread)" } == end.child.fact("stuck")) }
    }
  }

  @Test func endsProcessWhenStuckThreadBlocksSignals() throws {
    let end = try end("deafest")
    expectAbort(end)
    if Self.hasCores { #expect(end.core?.signal == Int16(SIGABRT)) }
  }

  @Test func endsWithoutReportWhenMemoryIsScarce() throws {
    let end = try end("memory")
    expectAbort(end)
    let errors = numbersHidden(end.child.errors)
    #expect(errors.contains("culprit: event loop \"http\" was stuck for "), "\(end.child)")
    #expect(errors.contains("; out of memory for a report\n"), "\(end.child)")
    #expect(errors.contains("The culprit is unknown: out of memory.\n"), "\(end.child)")
    #expect(end.files.count == 1 && end.child.fact("report") == nil)
  }

  @Test func reasonContainsCPUStatistics() throws {
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
        These are of the last N.N s, on N CPUs. Culprit so far:\u{20}
        """
      ),
      "\(reason)"
    )
    #expect(child.fact("source") == "event loop http" && child.fact("thread") == child.fact("stuck"))
    #expect(child.fact("threshold") == "0.6 seconds" && child.fact("enough") == "true")
    #expect(child.fact("code") == "2343432205" && child.fact("machine") == "true", "\(child)")
    #expect(child.fact("culprit") != nil && child.fact("culprit") != "nobody")
  }

  @Test func endsWhileAllocatorIsLocked() throws {
    let end = try end("malloc")
    expectAbort(end)
    #expect(end.child.errors.contains("The culprit is unknown: the report was not finished in time.\n"))
    if Self.hasCores { #expect(end.core.map { "\($0.thread)" } == end.child.fact("stuck")) }
  }

  /// A hanging disk, exhausted pools and blocked handlers must not prevent termination.
  @Test(arguments: ["disk", "pools", "deaf", "silent"])
  func boundsItsWaits(way: String) throws {
    let end = try end(way)
    expectAbort(end)
    #expect(end.child.errors.contains("Culprit so far: "))
  }

  @Test(arguments: [false, true]) func endsWhenStandardErrorBlocks(asInit: Bool) throws {
    if asInit, !Surroundings.isAdministrator { try Test.cancel("needs namespaces") }
    let end = try end("errors", asInit: asInit)
    let signal = asInit ? SIGILL : SIGKILL
    #expect(!end.child.hasExited && end.child.status == signal || end.child.status == 128 + signal, "\(end.child)")
    #expect(end.child.fact("ended") == nil && !end.child.errors.contains("0x8badf00d"), "\(end.child)")
  }

  @Test func reportsFailedThreadStart() throws {
    let child = try ChildProcess(
      ChildProcess.built("policy-process"),
      ["terminate-without-threads"],
      environment: ["SWIFT_BACKTRACE": "enable=no"]
    )
    if child.status == 77 { try Test.cancel("needs seccomp filters") }
    #expect(child.hasExited && child.status == 0 && child.fact("ended") == "true", "\(child)")
    #expect(child.errors.contains("culprit: cannot start a thread: Operation not permitted\n"), "\(child)")
  }

  @Test(arguments: ["alone", "beside-stuck"]) func callsHandlersBesideStuckOnes(way: String) throws {
    let child = try ChildProcess(
      ChildProcess.built("policy-process"),
      ["report-to-full-pipe", way],
      environment: ["SWIFT_BACKTRACE": "enable=no"]
    )
    #expect(child.hasExited && child.status == 0 && child.output == "asked=true\nasked=true\nended=true\n", "\(child)")
  }

  @Test func continuesWhenWorkEndsInHandler() throws {
    let child = try ChildProcess(
      ChildProcess.built("policy-process"),
      ["terminate-released"],
      environment: ["SWIFT_BACKTRACE": "enable=no"]
    )
    #expect(child.hasExited && child.status == 0 && child.fact("released") == "10", "\(child)")
    let lines = child.errors.split(separator: "\n")
    #expect(lines.count { $0 == "culprit: not terminating: the work has ended; the process goes on" } == 10, "\(child)")
  }

  @Test func vetoKeepsProcessAlive() throws {
    let child = try ChildProcess(
      ChildProcess.built("policy-process"),
      ["terminate-vetoed"],
      environment: ["SWIFT_BACKTRACE": "enable=no"]
    )
    #expect(
      child.hasExited && child.status == 0 && child.output == "ended=false\nvetoed=true\nended=true\n",
      "\(child)"
    )
    #expect(child.errors.components(separatedBy: "0x8badf00d").count == 2)
    #expect(child.errors.hasSuffix("culprit: a handler prevented the termination; the process goes on\n"))
  }
}

import CulpritBlackBox
import CulpritReports
import Foundation
import TestSupport
import Testing

@Suite(.ownThread) struct ControlTests {
  @TemporaryDirectory private var directory: String

  private func withProcess(
    _ words: [String],
    _ environment: [String: String],
    of program: String = "policy-process",
    until mark: String = "ready",
    isKilled: Bool = true,
    _ body: (RunningProcess) throws -> Void
  ) throws {
    let process = try RunningProcess(builtProgram(program).path, words, environment: environment)
    var output = ""
    while !mark.isEmpty, !output.contains(mark) {
      let text = process.next()
      try #require(!text.isEmpty, "the process ended: \(output)")
      output += text
    }
    defer {
      // A process that is not killed ends at the end of its input.
      if isKilled { kill(process.id, SIGKILL) }
      process.end()
    }
    try body(process)
  }

  private func sockets(in directory: String) throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: directory).filter { $0.hasSuffix(".control") }
  }

  @Test func dumpsWhilePoolIsStuck() throws {
    let environment = ["CULPRIT_CONTROL": "yes", "CULPRIT_DIRECTORY": directory]
    try withProcess(["control", "20"], environment) { process in
      let text = try culprit(["dump", "--width=200", "\(process.id)"])
      #expect(text.status == 0, "\(text.error)")
      #expect(text.out.contains("occupyThread(_:)"), "\(text.out)")
      #expect(text.out.contains("20 work items suspended at an await\n"), "\(text.out)")
      #expect(text.out.contains("and 14 others\n") && text.out.contains("awaitReply()"), "\(text.out)")
      #expect(text.out.contains("section \"request\" \"GET /orders/"), "\(text.out)")
      #expect(text.out.contains("activity \"upload\", "), "\(text.out)")
      #expect(text.out.contains("waiting for a mutex, held by thread \(process.id) "), "\(text.out)")

      let json = try culprit(["dump", "--format=json", "\(process.id)"])
      #expect(json.status == 0)
      let dump = try JSONDecoder().decode(ProcessDump.self, from: Data(json.out.utf8))
      #expect(dump.process?.id == process.id)
      let suspended = try #require(dump.work.first { $0.activity.kind == .suspended })
      #expect(Set(suspended.work.map(\.label)) == Set((0..<20).map { "GET /orders/\($0)" }))
      #expect(suspended.functions.contains { $0.name == "awaitReply()" })
      #expect(dump.threads.groups.contains { $0.lock?.owner.id == process.id && $0.lock?.kind == .mutex })

      let found = try sockets(in: directory)
      let path = "\(directory)/\(try #require(found.first))"
      let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
      #expect(found.count == 1 && mode == 0o600 && path.contains("-\(process.id)-"))
      let report = try culprit(["report", "\(process.id)"])
      #expect(report.status == 0 && report.error.contains("no stall is under way"))
    }
    // The next process removes the socket of the killed process, and its own socket at the stop.
    let left = try sockets(in: directory)
    #expect(left.count == 1)
    try withProcess(["control", "0"], environment, isKilled: false) { process in
      let again = try culprit(["dump", "\(process.id)"])
      #expect(again.status == 0, "\(again.error)")
      let present = try sockets(in: directory)
      #expect(present.count == 1 && present != left)
      process.closeInput()
      let ended = process.end()
      #expect(ended == (0, true))
      let after = try sockets(in: directory)
      #expect(after == [])
    }
  }

  /// A probe becomes work under way at an eighth of its threshold.
  @Test func dumpsProbeOfStuckPool() throws {
    let environment = ["CULPRIT_CONTROL": "yes", "CULPRIT_DIRECTORY": directory]
    try withProcess(["control", "0", "1", "pool"], environment) { process in
      var text = ""
      for _ in 0..<1000 where !text.contains("thread pool \"") {
        text = try culprit(["dump", "--width=200", "\(process.id)"]).out
      }
      #expect(text.contains("1 work item ready, without a thread\n"), "\(text)")
    }
  }

  @Test func refusesWithOneSentence() throws {
    try withProcess(["control", "0"], ["CULPRIT_DIRECTORY": directory]) { process in
      let off = try culprit(["dump", "\(process.id)"])
      #expect(off.status == 1 && off.error.contains("start it with CULPRIT_CONTROL=yes"), "\(off.error)")
    }
    let other = try RunningProcess("/bin/cat", [])
    let without = try culprit(["report", "\(other.id)"])
    #expect(without.status == 1 && without.error == "culprit: process \(other.id): it does not use Culprit\n")
    other.closeInput()
    other.end()
    let none = try culprit(["dump", "4194305"])
    #expect(none.status == 1 && none.error == "culprit: process 4194305: it does not exist\n")
    let misused = try culprit(["dump", "shop"])
    #expect(misused.status == 2)
  }

  @Test(.enabled(if: getuid() == 0, "only root can run programs as another user")) func refusesOtherUsers() throws {
    let environment = ["CULPRIT_CONTROL": "yes", "CULPRIT_DIRECTORY": directory + "/runs"]
    try withProcess(["control", "0"], environment) { process in
      let copy = directory + "/culprit"
      try FileManager.default.copyItem(at: builtProgram("culprit"), to: URL(fileURLWithPath: copy))
      chmod(directory, 0o711)
      let words = ["--reuid=65534", "--regid=65534", "--clear-groups", copy]
      let setpriv = URL(fileURLWithPath: "/usr/bin/setpriv")
      guard try run(setpriv, words + ["--version"]).status == 0 else {
        try Test.cancel("another user cannot run programs in \(directory)")
      }
      for command in ["dump", "report"] {
        let refused = try run(setpriv, words + [command, "\(process.id)"])
        #expect(refused.status == 1 && refused.out == "")
        #expect(refused.error == "culprit: process \(process.id): it belongs to another user (0)\n")
      }
    }
  }

  @Test func reportsMissingSocketDirectory() throws {
    let environment = ["CULPRIT_CONTROL": "yes", "XDG_RUNTIME_DIR": "", "CULPRIT_DIRECTORY": ""]
    let process = try RunningProcess(builtProgram("policy-process").path, ["control", "0"], environment: environment)
    process.closeInput()
    let output = process.rest()
    #expect(process.end() == (0, true))
    #expect(output.contains("problem=control: no socket"), "\(output)")
  }

  @Test func reportsStallUnderWay() throws {
    let environment = ["CULPRIT_CONTROL": "yes", "CULPRIT_DIRECTORY": directory, "CULPRIT_SYSTEMD": "no"]
    try withProcess(["hang-under-systemd"], environment, until: "") { process in
      // The stall file shows that the stall is declared and can be reported.
      while try FileManager.default.contentsOfDirectory(atPath: directory).allSatisfy({ !$0.hasSuffix(".stall") }) {
        sched_yield()
      }
      let report = try culprit(["report", "\(process.id)"])
      #expect(report.status == 0 && report.out.contains("event loop \"http\""), "\(report.out)\(report.error)")
      #expect(report.out.contains("hangUnderSystemd"), "\(report.out)")

      kill(process.id, SIGSTOP)
      let recorded = try culprit(["report", "\(process.id)"])
      #expect(recorded.status == 0 && recorded.error.contains("; its watchdog recorded:"), "\(recorded.error)")
      #expect(recorded.out.contains("hangUnderSystemd"), "\(recorded.out)")
    }
  }

  /// While a stalled thread holds the allocator's lock, the recorder and the control thread are blocked. The report
  /// must come from the note of the stall.
  @Test func reportsNotedStallWhileAllocatorIsLocked() throws {
    let environment = ["CULPRIT_CONTROL": "yes", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"]
    let runs = directory + "/runs"
    try withProcess(["malloc", "waiting", runs, "for-ever"], environment, of: "stalling-process", until: "") {
      process in
      let box = BlackBoxDirectory(path: runs)
      var isNoted = false
      while !isNoted {
        sched_yield()
        isNoted = ((try? box.names([".run"])) ?? [])
          .contains { (try? String(contentsOfFile: "\(runs)/\($0)", encoding: .utf8))?.contains("\nstack ") ?? false }
      }
      let report = try culprit(["report", "\(process.id)"])
      #expect(report.status == 0 && report.error.contains("; its watchdog recorded:"), "\(report.error)")
      #expect(report.out.contains("workload_hold_in_malloc"), "\(report.out)")
    }
  }
}

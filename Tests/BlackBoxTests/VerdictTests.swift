import CulpritStallRecord
import Foundation
import Testing

@testable import CulpritBlackBox

@Suite struct VerdictTests {
  private let run = RunRecord(
    identity: ProcessIdentity(process: 4242, start: 99, boot: "b", namespace: 7),
    executable: "/opt/my shop/shop",
    since: WallTime(nanosecondsSince1970: 1_795_170_231_204_000_001),
    memoryKills: [MemoryKills(path: "/sys/fs/cgroup/my shop", inode: 5, count: 1)]
  )

  private func verdict(
    _ lines: String = "",
    open: Bool = false,
    hang: Bool = false,
    boot: String = "b",
    _ kills: MemoryKills.Change = .none,
    wasReplaced: Bool = false
  )
    throws -> RunVerdict
  {
    let record = try #require(RunRecord(text: run.text + checked(lines)))
    return RunVerdict(
      of: record,
      hasOpenStall: open,
      hasOpenHang: hang,
      boot: boot,
      memoryKills: kills,
      wasReplaced: wasReplaced
    )
  }

  private func checked(_ lines: String) -> String {
    lines.split(separator: "\n").map { run.checked(String($0)) }.joined()
  }

  /// Keeps only the last note of each stall, and none of ended stalls.
  @Test func readsNotedHangs() throws {
    let module = Module(
      path: "/opt/my shop/shop",
      buildID: [0x0a, 0xff],
      mappings: [.init(start: RuntimeAddress(0x1000), end: RuntimeAddress(0x3000), fileOffset: 0x200)],
      bias: 0x800
    )
    let lines = """
      hang 3 900 5000000000 1000000000 250000000 1 77 main loop
      stack 3 900 5 0 1000:0 2000:1
      hang 4 901 5000000000 1000000000 250000000 3 0 import
      hang 3 900 7000000000 3000000000 250000000 1 77 main loop
      stack 3 900 12 1 1010:0 2000:1
      stack 3 900 1 0 3000:9
      over 4 901
      """
    let record = try #require(RunRecord(text: run.text + run.lines(of: [module]) + checked(lines)))
    #expect(record.modules == [module])
    let hang = try #require(record.hangs.first)
    #expect(record.hangs.count == 1 && hang.source == WatchedSource(kind: .loop, name: "main loop"))
    #expect(hang.began.nanosecondsSince1970 == 4_000_000_000 && hang.age == .seconds(3) && hang.threadID == 77)
    let frames = [StackFrame.programCounter(RuntimeAddress(0x1010)), .returnAddress(RuntimeAddress(0x2000))]
    #expect(hang.stacks == [NotedHang.SampledStack(samples: 12, stack: Stack(frames: frames, end: .copyLimit))])
    let (name, bytes) = try #require(record.filesOfNotedHangs.first)
    #expect(name.hasSuffix("-4242-4294967296.stall"))
    let file = try StallFile(bytes: bytes)
    #expect(file.problems.isEmpty && file.recording.modules == [module])
    let stall = try #require(file.recording.stalls.first)
    #expect(
      stall.samples.count == 12 && stall.duration == .seconds(3) && !stall.hasEnded && stall.source == hang.source
    )
  }

  @Test func verdictOfEachEnd() throws {
    #expect(try verdict() == .killed)
    #expect(try verdict(open: true) == .fatalHang)
    #expect(try verdict("ended 5\n", open: true, boot: "c", .inOwnGroup) == .cleanExit)
    // The watchdog was stopped, but the stuck process did not end.
    #expect(try verdict("ended 5\n", open: true, hang: true) == .fatalHang)
    #expect(try verdict("terminated 5\n", boot: "c", .inOwnGroup) == .terminated)
    #expect(try verdict("terminated 5\n", open: true) == .fatalHang)
    #expect(try verdict("terminated 5\nended 6\n") == .cleanExit)
    #expect(try verdict(boot: "c") == .machineGone)
    #expect(try verdict("signal 11 0\n") == .crash(signal: 11))
    // During a stall, a fault is a crash, but a signal from another process ends a hang.
    #expect(try verdict("signal 11 0\n", open: true) == .crash(signal: 11))
    #expect(try verdict("signal 6 1\n", open: true) == .fatalHang)
    #expect(try verdict("signal 6 1\n") == .crash(signal: 6))
    #expect(try verdict("signal 6 4242\n") == .crash(signal: 6))
    // An assertion fails while another thread is stuck.
    #expect(try verdict("signal 6 4242\n", open: true) == .crash(signal: 6))
    #expect(try verdict(open: true, .inOwnGroup) == .outOfMemory)
    #expect(try verdict(open: true, .above) == .fatalHang)
    // The victim can be any process of the machine.
    #expect(try verdict("", .above) == .possiblyOutOfMemory)
    #expect(try verdict("", .inOwnGroup) == .outOfMemory)
    // A process that continued after exec was not killed.
    #expect(try verdict("", .inOwnGroup, wasReplaced: true) == .cleanExit)
    #expect(try verdict(open: true, .inOwnGroup, wasReplaced: true) == .fatalHang)
    #expect(try verdict("signal 11 0\n", wasReplaced: true) == .crash(signal: 11))
    #expect(try verdict(boot: "c", wasReplaced: true) == .machineGone)
  }

  @Test func recordRoundTrips() throws {
    #expect(RunRecord(text: run.text) == run)
    let record = try #require(
      RunRecord(text: run.text + checked("signal 11 3\nended 77\nnews of a later version\ntold crash-11\n"))
    )
    #expect(record.crash == RunRecord.Crash(signal: 11, sender: 3))
    #expect(record.ended == WallTime(nanosecondsSince1970: 77))
    #expect(record.told.flatMap { RunVerdict(name: $0) } == .crash(signal: 11))
  }

  @Test func toleratesTruncationAnywhere() {
    let text = run.text + checked("ended 1795170231\n")
    for count in 0..<text.utf8.count {
      let cut = RunRecord(text: String(decoding: text.utf8.prefix(count), as: UTF8.self))
      if let cut { #expect(cut.identity.process == 4242 && cut.ended == nil) }
    }
  }

  @Test func toleratesDamageAnywhere() throws {
    let whole = Array((run.text + checked("signal 11 3\n")).utf8)
    let record = try #require(RunRecord(text: String(decoding: whole, as: UTF8.self)))
    for index in whole.indices {
      for change in [0x01, 0x10, 0x20, 0x80, 0xff] as [UInt8] {
        var bytes = whole
        bytes[index] ^= change
        guard let read = RunRecord(text: String(decoding: bytes, as: UTF8.self)) else { continue }
        #expect(read.identity.process == 4242 && read.identity.start == 99 && read.identity.boot == "b")
        #expect(read.executable == record.executable || read.executable.isEmpty)
        #expect(read.since == record.since)
        #expect(read.memoryKills == record.memoryKills || read.memoryKills.isEmpty)
        #expect(read.crash == record.crash || read.crash == nil)
        #expect(read.ended == nil && read.told == nil)
      }
    }
  }

  /// Files of earlier versions contain these names.
  @Test(arguments: [
    (RunVerdict.cleanExit, "clean-exit"), (.terminated, "terminated"), (.fatalHang, "fatal-hang"), (.killed, "killed"),
    (.crash(signal: 6), "crash-6"), (.outOfMemory, "out-of-memory"), (.machineGone, "machine-gone"),
    (.possiblyOutOfMemory, "possibly-out-of-memory"),
  ])
  func verdictNamesRoundTrip(verdict: RunVerdict, name: String) {
    #expect(verdict.name == name && RunVerdict(name: name) == verdict)
  }

  @Test(arguments: ["news", "", "crash-", "crash-x", "crash", "killed "]) func rejectsUnknownVerdictNames(name: String)
  {
    #expect(RunVerdict(name: name) == nil)
  }

  @Test func ignoresSurvivedSignals() throws {
    func crash(_ lines: String) throws -> RunRecord.Crash? {
      try #require(RunRecord(text: run.text + checked(lines))).crash
    }
    #expect(try crash("signal 11 3\nsignal 6 4\n") == RunRecord.Crash(signal: 11, sender: 3))
    #expect(try crash("signal 11 3\nsurvived 11\n") == nil)
    #expect(try crash("signal 11 3\nsurvived 6\n") == RunRecord.Crash(signal: 11, sender: 3))
    #expect(try crash("signal 11 3\nsurvived 11\nsignal 6 4\n") == RunRecord.Crash(signal: 6, sender: 4))
    #expect(try crash("signal 11\n") == nil)
    #expect(try crash("signal 11 3 5\n") == nil)
  }

  /// Earlier versions' files must stay readable.
  @Test func fileFormatIsStable() throws {
    var run = run
    run.number = 0xab
    let content = run.text.split(separator: "\n").map { String($0.dropLast(10)) }
    #expect(
      content == [
        "culprit-run 1 000000ab", "process 4242", "start 99", "boot b", "namespace 7", "since 1795170231204000001",
        "executable /opt/my shop/shop", "memory 1 5 /sys/fs/cgroup/my shop",
      ]
    )
    // CRC-32 of the number and the preceding text; the first line's number is 0.
    for (line, number) in zip(run.text.split(separator: "\n"), ["00000000"] + Array(repeating: "000000ab", count: 7)) {
      let checksum = CRC32.checksum(Array((number + line.dropLast(10)).utf8)[...])
      #expect(line.suffix(10) == " #" + String(format: "%08x", checksum))
    }
  }

  /// Two runs can be distinguished only with all these fields.
  @Test(arguments: ["process", "start", "boot", "namespace", "since"]) func rejectsRecordWithoutIdentity(word: String)
    throws
  {
    let lines = run.text.split(separator: "\n")
    let left = lines.filter { !$0.hasPrefix(word + " ") }
    #expect(left.count == lines.count - 1)
    #expect(RunRecord(text: left.joined(separator: "\n") + "\n") == nil)
    let others = lines.filter { !$0.hasPrefix("executable ") && !$0.hasPrefix("memory ") }
    let record = try #require(RunRecord(text: others.joined(separator: "\n") + "\n"))
    #expect(record.identity == run.identity && record.executable == "" && record.memoryKills == [])
  }

  @Test func formatsTimeAndRejectsProcessZero() {
    #expect(run.since.fileNamePart == "20261120T102351.204Z")
    #expect(Set((0..<20).map { _ in RunRecord(text: self.run.text)?.number }).count == 1)
    var unknown = run
    unknown.identity.process = 0
    #expect(RunRecord(text: unknown.text) == nil)
    unknown.identity.process = 1
    #expect(RunRecord(text: unknown.text) == unknown)
  }

  @Test func replacesControlCharacters() throws {
    var run = run
    run.executable = "/opt/a\nended 5\u{1f} \u{20}~"
    run.memoryKills = [MemoryKills(path: "/a\tb", inode: 6, count: 2), MemoryKills(path: "/c d", inode: 7, count: 3)]
    let record = try #require(RunRecord(text: run.text))
    #expect(record.executable == "/opt/a?ended 5? \u{20}~" && record.ended == nil)
    #expect(record.memoryKills.map(\.path) == ["/a?b", "/c d"])
    #expect(record.memoryKills.map(\.inode) == [6, 7] && record.memoryKills.map(\.count) == [2, 3])
  }

  /// mountinfo escapes blanks as three octal digits.
  @Test func decodesBlanksInMountPoints() {
    let mount = #"35 31 0:32 / /sys/my\040groups\134x\q rw - cgroup2 cgroup2 rw"#
    #expect(
      ControlGroups.directories(of: "memory", groups: "0::/a\n", mounts: mount) == [
        #"/sys/my groups\x\q/a"#, #"/sys/my groups\x\q"#,
      ]
    )
  }

  @Test func skipsMalformedGroupsAndMounts() {
    let mounts = "short - cgroup2\n35 31 0:32 / /g rw - cgroup2\n36 31 0:32 / /good rw - cgroup2 none rw"
    #expect(ControlGroups.directories(of: "memory", groups: "0:/a\n0:x:/b\n1::/c\n", mounts: mounts) == [])
    #expect(ControlGroups.directories(of: "memory", groups: "0::/a\n", mounts: mounts) == ["/good/a", "/good"])
    #expect(ControlGroups.directories(of: "memory", groups: "4:cpu,memory:/a\n", mounts: mounts) == [])
  }

  /// A quota also applies to subgroups, so all parents are listed.
  @Test func findsGroupsWithCPUQuota() {
    let mounts = "36 31 0:33 / /sys/fs/cgroup/cpu rw shared:3 - cgroup cgroup rw,cpu,cpuacct"
    #expect(
      ControlGroups.directories(of: "cpu", groups: "4:memory:/a/b\n1:cpu,cpuacct:/c/d\n", mounts: mounts)
        == ["/sys/fs/cgroup/cpu/c/d", "/sys/fs/cgroup/cpu/c", "/sys/fs/cgroup/cpu"]
    )
  }

  @Test func listsGroupsNearestFirst() {
    let mounts = """
      35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
      36 31 0:33 / /sys/fs/cgroup/cpu rw shared:3 - cgroup cgroup rw,cpu
      37 31 0:34 /pod /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw
      """
    #expect(
      ControlGroups.directories(of: "memory", groups: "4:memory:/a/b\n1:cpu:/c\n", mounts: mounts)
        == ["/sys/fs/cgroup/memory/a/b"]
    )
    #expect(
      ControlGroups.directories(of: "memory", groups: "0::/pod/box\n", mounts: mounts)
        == ["/sys/fs/cgroup/unified/box", "/sys/fs/cgroup/unified"]
    )
    for place in ["/elsewhere", "/podium/box", "/"] {
      #expect(ControlGroups.directories(of: "memory", groups: "0::\(place)\n", mounts: mounts) == [])
    }
    #expect(
      ControlGroups.directories(
        of: "memory",
        groups: "0::/pod/a/b\n",
        mounts: mounts + ",nsdelegate,memory_localevents"
      )
        == ["/sys/fs/cgroup/unified/a/b"]
    )
  }
}

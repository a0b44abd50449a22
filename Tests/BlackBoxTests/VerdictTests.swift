import CulpritStallRecord
import Testing

@testable import CulpritBlackBox

/// How a run ended, from what it left.
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
    boot: String = "b",
    _ kills: MemoryKills.Change = .none,
    wasReplaced: Bool = false
  )
    throws -> RunVerdict
  {
    let record = try #require(RunRecord(text: run.text + checked(lines)))
    return RunVerdict(of: record, hasOpenStall: open, boot: boot, memoryKills: kills, wasReplaced: wasReplaced)
  }

  /// `lines` with their checksums.
  private func checked(_ lines: String) -> String {
    lines.split(separator: "\n").map { run.checked(String($0)) }.joined()
  }

  @Test func everyEndHasItsVerdict() throws {
    #expect(try verdict() == .killed)
    #expect(try verdict(open: true) == .fatalHang)
    #expect(try verdict("ended 5\n", open: true, boot: "c", .inOwnGroup) == .cleanExit)
    #expect(try verdict(boot: "c") == .machineGone)
    #expect(try verdict("signal 11 0\n") == .crash(signal: 11))
    // A fault in mid-stall is a crash; a signal that was sent is what ends a hang.
    #expect(try verdict("signal 11 0\n", open: true) == .crash(signal: 11))
    #expect(try verdict("signal 6 1\n", open: true) == .fatalHang)
    #expect(try verdict("signal 6 4242\n") == .crash(signal: 6))
    // An assertion that fails while something else is stuck.
    #expect(try verdict("signal 6 4242\n", open: true) == .crash(signal: 6))
    #expect(try verdict(open: true, .inOwnGroup) == .outOfMemory)
    #expect(try verdict(open: true, .above) == .fatalHang)
    #expect(try verdict("", .above) == .outOfMemory)
    // A process that goes on has not been killed, whatever became of others.
    #expect(try verdict("", .inOwnGroup, wasReplaced: true) == .cleanExit)
    #expect(try verdict(open: true, .inOwnGroup, wasReplaced: true) == .fatalHang)
    #expect(try verdict("signal 11 0\n", wasReplaced: true) == .crash(signal: 11))
    #expect(try verdict(boot: "c", wasReplaced: true) == .machineGone)
  }

  @Test func aFileComesBack() throws {
    #expect(RunRecord(text: run.text) == run)
    let told = try #require(
      RunRecord(text: run.text + checked("signal 11 3\nended 77\nnews of a later version\ntold crash-11\n"))
    )
    #expect(told.crash == RunRecord.Crash(signal: 11, sender: 3))
    #expect(told.ended == WallTime(nanosecondsSince1970: 77))
    #expect(told.told.flatMap { RunVerdict(name: $0) } == .crash(signal: 11))
  }

  /// A cut costs the line it is in, and a line that is cut off is not believed.
  @Test func everyCutIsReadOrRefused() {
    let text = run.text + checked("ended 1795170231\n")
    for count in 0..<text.utf8.count {
      let cut = RunRecord(text: String(decoding: text.utf8.prefix(count), as: UTF8.self))
      if let cut { #expect(cut.identity.process == 4242 && cut.ended == nil) }
    }
  }

  /// Whatever becomes of a byte, the file says what is so, or less.
  @Test func everyDamageIsReadOrRefused() throws {
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

  @Test func everyVerdictHasAName() {
    for verdict in [
      RunVerdict.cleanExit, .fatalHang, .killed, .crash(signal: 6), .outOfMemory, .machineGone,
    ] { #expect(RunVerdict(name: verdict.name) == verdict) }
    #expect(RunVerdict(name: "news") == nil)
  }

  @Test func groupsAreFoundNearestFirst() {
    let mounts = """
      35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
      36 31 0:33 / /sys/fs/cgroup/cpu rw shared:3 - cgroup cgroup rw,cpu
      37 31 0:34 /pod /sys/fs/cgroup/unified rw shared:4 - cgroup2 cgroup2 rw
      """
    #expect(
      MemoryKills.directories(groups: "4:memory:/a/b\n1:cpu:/c\n", mounts: mounts)
        == ["/sys/fs/cgroup/memory/a/b"]
    )
    #expect(
      MemoryKills.directories(groups: "0::/pod/box\n", mounts: mounts)
        == ["/sys/fs/cgroup/unified/box", "/sys/fs/cgroup/unified"]
    )
    for place in ["/elsewhere", "/podium/box", "/"] {
      #expect(MemoryKills.directories(groups: "0::\(place)\n", mounts: mounts) == [])
    }
    #expect(
      MemoryKills.directories(groups: "0::/pod/a/b\n", mounts: mounts + ",nsdelegate,memory_localevents")
        == ["/sys/fs/cgroup/unified/a/b"]
    )
  }
}

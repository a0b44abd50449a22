import Foundation
import Testing

@testable import CulpritBlackBox

/// Kernel files with out-of-memory kill counts, in a temporary directory tree.
@Suite struct MemoryKillsTests {
  /// A control group hierarchy and the machine's count.
  private final class Tree {
    let root: String
    var machine: String { root + "/vmstat" }

    init() throws {
      root = NSTemporaryDirectory() + "culprit-groups-\(UUID().uuidString)"
      try FileManager.default.createDirectory(atPath: root + "/shop.slice/shop", withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    private func write(_ text: String, _ path: String) throws {
      try text.write(toFile: "\(root)/\(path)", atomically: false, encoding: .utf8)
    }

    /// memory.events of Linux 6.18, which includes descendants, or memory.events.local.
    func events(_ group: String, _ count: Int, local: Bool = false) throws {
      try write(
        "low 0\nhigh 0\nmax 12\noom 30\noom_kill \(count)\noom_group_kill 7\nsock_throttled 0\n",
        "\(group)/memory.events" + (local ? ".local" : "")
      )
    }

    /// memory.oom_control of cgroup v1.
    func control(_ group: String, _ count: Int) throws {
      try write("oom_kill_disable 0\nunder_oom 0\noom_kill \(count)\n", "\(group)/memory.oom_control")
    }

    func machine(_ count: Int) throws { try write("pgmajfault 12\noom_kill \(count)\nkswapd_inodesteal 1\n", "vmstat") }

    /// The counts of a process in the group shop.
    func counts(version: Int) -> [MemoryKills] {
      let type = version == 2 ? "cgroup2 cgroup2 rw,nsdelegate" : "cgroup cgroup rw,memory"
      return MemoryKills.counts(
        groups: version == 2 ? "0::/shop.slice/shop\n" : "4:memory:/shop.slice/shop\n0::/\n",
        mounts: "35 31 0:32 / \(root) rw,relatime - \(type)\n",
        machine: machine
      )
    }

    func change(since counts: [MemoryKills]) -> MemoryKills.Change {
      MemoryKills.change(since: counts, groups: root, machine: machine)
    }

    /// Replaces a group by a new group of the same name. Keeping the old directory prevents reuse of its inode number.
    func makeAnew(_ group: String) throws {
      try FileManager.default.moveItem(atPath: "\(root)/\(group)", toPath: "\(root)/former")
      try FileManager.default.createDirectory(atPath: "\(root)/\(group)", withIntermediateDirectories: true)
    }
  }

  private let shop = "shop.slice/shop"

  private func secondVersion(local: Bool = true) throws -> (Tree, [MemoryKills]) {
    let tree = try Tree()
    try tree.events(shop, 5)
    if local { try tree.events(shop, 2, local: true) }
    try tree.events("shop.slice", 9)
    try tree.events("shop.slice", 1, local: true)
    try tree.machine(20)
    return (tree, tree.counts(version: 2))
  }

  /// A kill in a subgroup does not count for its parent. The root of cgroup v2 has no count.
  @Test func ignoresKillsInSubgroups() throws {
    let (tree, counts) = try secondVersion()
    #expect(counts.map(\.count) == [2, 9, 20])
    #expect(counts.map(\.path) == ["\(tree.root)/\(shop)", "\(tree.root)/shop.slice", tree.machine])
    #expect(tree.change(since: counts) == .none)
    // A kill in a subgroup, which the service might have created.
    try tree.events(shop, 6)
    try tree.events("shop.slice", 10)
    try tree.machine(21)
    #expect(tree.change(since: counts) == .none)
    try tree.events(shop, 3, local: true)
    #expect(tree.change(since: counts) == .inOwnGroup)
  }

  @Test func olderKernelsIncludeSubgroups() throws {
    let (tree, counts) = try secondVersion(local: false)
    #expect(counts.map(\.count) == [5, 9, 20])
    try tree.events(shop, 6)
    #expect(tree.change(since: counts) == .inOwnGroup)
  }

  @Test func fallsBackToParentGroup() throws {
    let (tree, counts) = try secondVersion()
    try tree.makeAnew(shop)
    try tree.events(shop, 0)
    try tree.events(shop, 0, local: true)
    try tree.machine(21)
    #expect(tree.change(since: counts) == .none)
    try tree.events("shop.slice", 10)
    #expect(tree.change(since: counts) == .above)
  }

  @Test func fallsBackToMachineCount() throws {
    let (tree, counts) = try secondVersion()
    try tree.makeAnew("shop.slice")
    #expect(tree.change(since: counts) == .none)
    try tree.machine(21)
    #expect(tree.change(since: counts) == .above)
    try FileManager.default.removeItem(atPath: tree.machine)
    #expect(tree.change(since: counts) == .none)
  }

  /// Counts of cgroup v1 do not include descendants.
  @Test func readsCgroupV1Counts() throws {
    let tree = try Tree()
    try tree.control(shop, 2)
    try tree.control("shop.slice", 4)
    try tree.control("", 8)
    try tree.machine(20)
    let counts = tree.counts(version: 1)
    #expect(counts.map(\.count) == [2, 20])
    try tree.machine(21)
    try tree.control("shop.slice", 5)
    #expect(tree.change(since: counts) == .none)
    try tree.control(shop, 3)
    #expect(tree.change(since: counts) == .inOwnGroup)
    try tree.makeAnew(shop)
    try tree.control(shop, 0)
    #expect(tree.change(since: counts) == .above)
    // Linux before 4.13 lacks the count.
    let old = "oom_kill_disable 0\nunder_oom 0\n"
    try old.write(toFile: "\(tree.root)/\(shop)/memory.oom_control", atomically: false, encoding: .utf8)
    #expect(tree.counts(version: 1).map(\.count) == [21])
  }

  @Test func usesParentOfGroupWithoutController() throws {
    let tree = try Tree()
    try tree.events("shop.slice", 9)
    try tree.events("shop.slice", 4, local: true)
    try tree.machine(20)
    let counts = tree.counts(version: 2)
    #expect(counts.map(\.count) == [4, 20])
    try tree.events("shop.slice", 10)
    #expect(tree.change(since: counts) == .none)
    try tree.events("shop.slice", 5, local: true)
    #expect(tree.change(since: counts) == .inOwnGroup)
  }

  /// Without a control group, the victim can be any process of the machine.
  @Test func machineCountIsNotOwnGroup() throws {
    let tree = try Tree()
    try tree.machine(20)
    let counts = tree.counts(version: 2)
    #expect(counts == [MemoryKills(path: tree.machine, inode: 0, count: 20)])
    try tree.machine(21)
    #expect(tree.change(since: counts) == .above)
  }

  /// A run file can contain forged paths.
  @Test func opensOnlyKernelFiles() throws {
    let tree = try Tree()
    try tree.events(shop, 1)
    try tree.machine(1)
    let watch = inotify_init1(Int32(IN_NONBLOCK))
    defer { close(watch) }
    for directory in [tree.root, "\(tree.root)/\(shop)"] {
      try #require(inotify_add_watch(watch, directory, UInt32(IN_OPEN)) >= 0)
    }
    let inode = try #require(SmallFile.inode("\(tree.root)/\(shop)"))
    let counts = ["\(tree.root)/\(shop)", "/sys/fs/cgroup/../../..\(tree.root)/\(shop)"]
      .map { MemoryKills(path: $0, inode: inode, count: 0) }
    #expect(MemoryKills.change(since: counts + [MemoryKills(path: tree.machine, inode: 0, count: 0)]) == .none)
    var events = [UInt8](repeating: 0, count: 1 << 12)
    #expect(read(watch, &events, events.count) < 0)
    try FileManager.default.moveItem(atPath: tree.machine, toPath: tree.root + "/elsewhere")
    try #require(symlink("elsewhere", tree.machine) == 0)
    #expect(tree.change(since: [MemoryKills(path: tree.machine, inode: 0, count: 0)]) == .none)
  }

  @Test func readsCountsOfCurrentMachine() {
    let counts = MemoryKills.ofThisProcess()
    #expect(counts.last?.path == MemoryKills.machine)
    #expect(counts.dropLast().allSatisfy { $0.inode != 0 })
  }
}

/// How many processes of a control group the kernel has killed for want of memory.
package struct MemoryKills: Hashable, Sendable {
  /// The group's directory, or `/proc/vmstat` for the whole machine.
  package var path: String
  /// The directory's inode: a service that is started again may get a new group of the same name, which counts from zero.
  package var inode: UInt64
  /// The count.
  package var count: UInt64

  /// `count` kills in the group at `path`.
  package init(path: String, inode: UInt64, count: UInt64) {
    self.path = path
    self.inode = inode
    self.count = count
  }

  /// What has become of the counts since.
  package enum Change: Hashable, Sendable {
    /// Nothing, as far as can be seen.
    case none
    /// More in the group itself.
    case inOwnGroup
    /// More in a group that contains it, which is gone, or on the machine.
    case above
  }

  /// The machine's count (proc(5), `oom_kill`).
  package static let machine = "/proc/vmstat"

  /// The counts of this process's group, of those that contain it, and of the machine.
  package static func ofThisProcess() -> [MemoryKills] {
    counts(
      groups: SmallFile.text("/proc/self/cgroup") ?? "",
      mounts: SmallFile.text("/proc/self/mountinfo") ?? "",
      machine: machine
    )
  }

  /// The same of a process with this `/proc/self/cgroup` and `/proc/self/mountinfo`.
  static func counts(groups: String, mounts: String, machine: String) -> [MemoryKills] {
    var found: [MemoryKills] = []
    for directory in ControlGroups.directories(of: "memory", groups: groups, mounts: mounts) {
      // A group for which the memory controller is not enabled has no count: its processes belong to the next one above.
      guard let count = count(in: directory, isOwn: found.isEmpty), let inode = SmallFile.inode(directory) else {
        continue
      }
      found.append(MemoryKills(path: directory, inode: inode, count: count))
    }
    if let count = count(of: machine) { found.append(MemoryKills(path: machine, inode: 0, count: count)) }
    return found
  }

  /// Whether `path` is one of the kernel's: a directory below `groups`, or `machine`. Any user can write a file with other paths, and
  /// opening a path can have side effects.
  private static func isKernels(_ path: String, groups: String, machine: String) -> Bool {
    path == machine || "\(path)/".hasPrefix("\(groups)/") && !path.split(separator: "/").contains("..")
  }

  /// Returns the change of `counts`, by the nearest group that still exists. Ignores counts with other paths than the kernel's.
  ///
  /// - Parameters:
  ///   - counts: The counts, as a file has them.
  ///   - groups: Where the kernel's control groups are.
  ///   - machine: The machine's count.
  /// - Returns: The change.
  package static func change(
    since counts: [MemoryKills],
    groups: String = "/sys/fs/cgroup",
    machine: String = Self.machine
  ) -> Change {
    for (index, former) in counts.enumerated() where isKernels(former.path, groups: groups, machine: machine) {
      let isMachine = former.inode == 0
      let isOwn = index == 0 && !isMachine
      guard let count = isMachine ? count(of: former.path) : count(in: former.path, isOwn: isOwn),
        isMachine || SmallFile.inode(former.path) == former.inode
      else { continue }
      return count <= former.count ? .none : isOwn ? .inOwnGroup : .above
    }
    return .none
  }

  /// The count of the group at `path`: its own, without the groups below it, where it is this process's group and the kernel
  /// has that (memory.events.local, since Linux 5.2; all that version 1 has).
  private static func count(in path: String, isOwn: Bool) -> UInt64? {
    if isOwn, let count = count(of: "\(path)/memory.events.local") { return count }
    return count(of: "\(path)/memory.events") ?? count(of: "\(path)/memory.oom_control")
  }

  /// The number in the line "oom_kill 3" of the file at `path`.
  private static func count(of path: String) -> UInt64? {
    SmallFile.text(path, followsLinks: false)?.split(separator: "\n").first { $0.hasPrefix("oom_kill ") }
      .flatMap { UInt64($0.dropFirst(9)) }
  }
}

/// The number of processes of a control group that the kernel killed for lack of memory.
package struct MemoryKills: Hashable, Sendable {
  /// The group's directory, or `/proc/vmstat` for the whole machine.
  package var path: String
  /// Distinguishes groups: a restarted service might get a new group with the same name.
  package var inode: UInt64
  package var count: UInt64

  package enum Change: Hashable, Sendable {
    case none
    /// The count of the process's own group increased.
    case inOwnGroup
    /// The process's group is gone. The count of the nearest remaining ancestor, or of the machine, increased.
    case above
  }

  /// The machine's count (proc(5), `oom_kill`).
  package static let machine = "/proc/vmstat"

  /// Returns the counts of this process's group, of its ancestors, and of the machine.
  package static func ofThisProcess() -> [MemoryKills] {
    counts(
      groups: SmallFile.text("/proc/self/cgroup") ?? "",
      mounts: SmallFile.text("/proc/self/mountinfo") ?? "",
      machine: machine
    )
  }

  /// `groups` and `mounts` are the content of `/proc/PID/cgroup` and `/proc/PID/mountinfo`.
  static func counts(groups: String, mounts: String, machine: String) -> [MemoryKills] {
    var found: [MemoryKills] = []
    for directory in ControlGroups.directories(of: "memory", groups: groups, mounts: mounts) {
      // A group without the memory controller has no count; the nearest ancestor counts its processes.
      guard let count = count(in: directory, isOwn: found.isEmpty), let inode = SmallFile.inode(directory) else {
        continue
      }
      found.append(MemoryKills(path: directory, inode: inode, count: count))
    }
    if let count = count(of: machine) { found.append(MemoryKills(path: machine, inode: 0, count: count)) }
    return found
  }

  /// Whether the kernel provides `path`. Users can write files with other paths, and opening those can have side
  /// effects.
  private static func isFromKernel(_ path: String, groups: String, machine: String) -> Bool {
    path == machine || "\(path)/".hasPrefix("\(groups)/") && !path.split(separator: "/").contains("..")
  }

  /// Returns the change for the nearest group that still exists. Ignores paths that the kernel does not provide.
  package static func change(
    since counts: [MemoryKills],
    groups: String = "/sys/fs/cgroup",
    machine: String = Self.machine
  ) -> Change {
    for (index, former) in counts.enumerated() where isFromKernel(former.path, groups: groups, machine: machine) {
      let isMachine = former.inode == 0
      let isOwn = index == 0 && !isMachine
      guard let count = isMachine ? count(of: former.path) : count(in: former.path, isOwn: isOwn),
        isMachine || SmallFile.inode(former.path) == former.inode
      else { continue }
      return count <= former.count ? .none : isOwn ? .inOwnGroup : .above
    }
    return .none
  }

  /// For the process's own group, excludes descendants if possible (memory.events.local, since Linux 5.2; version 1).
  private static func count(in path: String, isOwn: Bool) -> UInt64? {
    if isOwn, let count = count(of: "\(path)/memory.events.local") { return count }
    return count(of: "\(path)/memory.events") ?? count(of: "\(path)/memory.oom_control")
  }

  private static func count(of path: String) -> UInt64? {
    SmallFile.text(path, followsLinks: false)?.split(separator: "\n").first { $0.hasPrefix("oom_kill ") }
      .flatMap { UInt64($0.dropFirst(9)) }
  }
}

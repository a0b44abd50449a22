import CulpritBlackBox

/// Mounts that are served by another process (FUSE) or another machine (NFS). A read from such a mount can block
/// forever and cannot be interrupted or killed.
struct RemoteMounts {
  private struct Mount {
    /// The mount point with a trailing slash.
    var folder: String
    var type: String
  }

  private let mounts: [Mount]
  private let executable: String

  init() {
    self.init(
      mountinfo: ProcessMap.readAll("/proc/thread-self/mountinfo") ?? "",
      executable: ProcessMap.executablePath()
    )
  }

  /// Parses `mountinfo` (proc_pid_mountinfo(5)) of a process with the path `executable`.
  init(mountinfo: String, executable: String) {
    // "36 35 0:53 / /mnt rw,relatime shared:1 - fuse.sshfs host:/ rw"
    mounts = mountinfo.split(separator: "\n").compactMap { line in
      let fields = line.split(separator: " ")
      guard fields.count > 6, let separator = fields.firstIndex(of: "-"), separator + 1 < fields.count else {
        return nil
      }
      let folder = ControlGroups.unescaped(fields[4])
      return Mount(folder: folder == "/" ? folder : folder + "/", type: String(fields[separator + 1]))
    }
    self.executable = executable
  }

  /// Returns the reasons not to open files of `paths`. Files on the executable's mount are opened: the application
  /// needs this mount anyway.
  func reasons(for paths: some Sequence<String>) -> [String: String] {
    let own = mount(of: executable)
    var reasons: [String: String] = [:]
    for path in paths {
      guard let index = mount(of: path), index != own, Self.isRemote(mounts[index].type) else { continue }
      reasons[path] = "it is on a \(mounts[index].type) file system, which may not answer"
    }
    return reasons
  }

  /// Returns the innermost mount; the last one of several with equal mount points.
  private func mount(of path: String) -> Int? {
    mounts.indices.filter { path.hasPrefix(mounts[$0].folder) }
      .max { (mounts[$0].folder.utf8.count, $0) < (mounts[$1].folder.utf8.count, $1) }
  }

  static func isRemote(_ type: String) -> Bool {
    type.hasPrefix("fuse") || type.hasPrefix("nfs")
      || [
        "virtiofs", "cifs", "smb3", "smbfs", "9p", "ceph", "afs", "lustre", "gpfs", "ocfs2", "gfs2", "coda", "vboxsf",
        "orangefs", "beegfs", "pvfs2", "prl_fs",
      ]
      .contains(type)
  }
}

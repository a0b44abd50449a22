/// The control group directories of a process (cgroups(7)).
package enum ControlGroups {
  /// Returns the directories of this process's group and its ancestors for `controller`, the nearest first.
  package static func directories(of controller: String) -> [String] {
    directories(
      of: controller,
      groups: SmallFile.text("/proc/self/cgroup") ?? "",
      mounts: SmallFile.text("/proc/self/mountinfo") ?? ""
    )
  }

  /// Returns the directories of the group and its ancestors for `controller`, the nearest first.
  ///
  /// For the memory controller, ancestors are included only if they count kills in their descendants: in version 2,
  /// mounted without memory_localevents.
  ///
  /// `groups` is the content of `/proc/PID/cgroup`: `0::/path` (version 2), `4:memory:/path` (version 1). `mounts` is
  /// the content of `/proc/PID/mountinfo`: `36 35 98:0 /root /mount options - cgroup2 source options`.
  package static func directories(of controller: String, groups: String, mounts: String) -> [String] {
    var found: [String] = []
    for line in groups.split(separator: "\n") {
      let parts = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
      guard parts.count == 3 else { continue }
      let isSecond = parts[0] == "0" && parts[1].isEmpty
      guard isSecond || parts[1].split(separator: ",").contains(controller[...]) else { continue }
      for mount in mounts.split(separator: "\n") {
        let fields = mount.split(separator: " ")
        guard let dash = fields.firstIndex(of: "-"), dash >= 6, fields.count > dash + 3 else { continue }
        let isMatching =
          isSecond
          ? fields[dash + 1] == "cgroup2"
          : fields[dash + 1] == "cgroup" && fields[dash + 3].split(separator: ",").contains(controller[...])
        let root = fields[3] == "/" ? "" : unescaped(fields[3])
        // A container sees only the groups below the mount's root.
        guard isMatching, "\(parts[2])/".hasPrefix(root + "/") else { continue }
        let isLocal = fields[dash + 3].split(separator: ",").contains("memory_localevents")
        // A CPU quota applies to all descendants in both versions.
        let countsBelow = controller == "cpu" || (isSecond && !isLocal)
        var rest = parts[2].dropFirst(root.count).split(separator: "/")
        while true {
          found.append(([unescaped(fields[4])] + rest.map(String.init)).joined(separator: "/"))
          guard countsBelow, !rest.isEmpty else { break }
          rest.removeLast()
        }
        break
      }
    }
    return found
  }

  /// Decodes mountinfo's octal escapes of blanks, tabs, line feeds and backslashes (proc(5)): "/mnt/two\040words".
  package static func unescaped(_ field: Substring) -> String {
    var path: [UInt8] = []
    var rest = field.utf8[...]
    while let byte = rest.popFirst() {
      if byte == UInt8(ascii: "\\"), let code = UInt8(Substring(rest.prefix(3)), radix: 8) {
        path.append(code)
        rest = rest.dropFirst(3)
      } else {
        path.append(byte)
      }
    }
    return String(decoding: path, as: UTF8.self)
  }
}

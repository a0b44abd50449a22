package struct ObservedProcess: Hashable, Sendable {
  package var id: Int32
  package var executable: String
  package var architecture: String
  package var observerVersion: String
  package var watchedSince: WallTime
  package var ownModules: [String]
  package var wrappers: [String]
  /// The name of the host; in a container, the container's host name.
  package var host: String

  package init(
    id: Int32,
    executable: String,
    architecture: String,
    observerVersion: String,
    watchedSince: WallTime,
    ownModules: [String] = [],
    wrappers: [String] = [],
    host: String = ""
  ) {
    self.id = id
    self.executable = executable
    self.architecture = architecture
    self.observerVersion = observerVersion
    self.watchedSince = watchedSince
    self.ownModules = ownModules
    self.wrappers = wrappers
    self.host = host
  }

  package var name: String {
    let deleted = " (deleted)"
    let path = executable.hasSuffix(deleted) ? executable.dropLast(deleted.count) : executable[...]
    return path.split(separator: "/").last.map(String.init) ?? String(path)
  }
}

package struct ObservedThread: Hashable, Sendable {
  package var id: Int32
  /// The kernel's name, or ``poolName``.
  package var name: String

  package init(id: Int32, name: String) {
    self.id = id
    self.name = Self.poolLabels.contains(name) ? Self.poolName : name
  }

  /// The name of a thread in libdispatch's pool, which also runs Swift tasks.
  private static let poolName = "pool thread"

  /// The names of these threads in the kernel, which stores the last 15 characters of a global queue's label.
  private static let poolLabels = Set(
    ["maintenance", "background", "utility", "default", "user-initiated", "user-interactive"]
      .flatMap { ["com.apple.root.\($0)-qos", "com.apple.root.\($0)-qos.overcommit"] }
      .map { String($0.suffix(15)) }
  )
}

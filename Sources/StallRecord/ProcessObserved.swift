/// The observed process.
package struct ObservedProcess: Hashable, Sendable {
  /// The process ID.
  package var id: Int32
  /// The path of the executable.
  package var executable: String
  /// The CPU architecture, as printed by `uname -m`.
  package var architecture: String
  /// The version of Culprit that observed the process.
  package var observerVersion: String
  /// The start of the watchdog.
  package var watchedSince: WallTime
  /// Code that the service declares as its own, in addition to the package that was built.
  package var ownModules: [String]
  /// The service's own functions that it declares as wrappers, which are passed over.
  package var wrappers: [String]
  /// The name of the host; in a container, the container's host name. Empty if unknown.
  package var host: String

  /// Creates a process.
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

  /// The last component of ``executable``, without the kernel's mark of a deleted file.
  package var name: String {
    let deleted = " (deleted)"
    let path = executable.hasSuffix(deleted) ? executable.dropLast(deleted.count) : executable[...]
    return path.split(separator: "/").last.map(String.init) ?? String(path)
  }
}

/// A thread of the observed process.
package struct ObservedThread: Hashable, Sendable {
  /// The kernel's thread ID.
  package var id: Int32
  /// The name of the thread; empty if unknown.
  package var name: String

  /// Creates a thread.
  package init(id: Int32, name: String) {
    self.id = id
    self.name = name
  }
}

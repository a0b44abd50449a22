/// The process that was observed.
package struct ObservedProcess: Hashable, Sendable {
  /// Its process id.
  package var id: Int32
  /// The path of its executable.
  package var executable: String
  /// The processor architecture as `uname -m` has it.
  package var architecture: String
  /// The version of Culprit that observed it.
  package var observerVersion: String
  /// When the watchdog was started.
  package var watchedSince: WallTime
  /// What the service counts as its own code beside the package that was built.
  package var ownModules: [String]
  /// Its own functions that it has passed over.
  package var wrappers: [String]
  /// The name of the host, which is the container's where it has one; empty if unknown.
  package var host: String

  /// A process `id` running `executable`.
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

  /// The last component of ``executable``, whether it has been deleted since or not.
  package var name: String {
    let deleted = " (deleted)"
    let path = executable.hasSuffix(deleted) ? executable.dropLast(deleted.count) : executable[...]
    return path.split(separator: "/").last.map(String.init) ?? String(path)
  }
}

/// A thread of the observed process.
package struct ObservedThread: Hashable, Sendable {
  /// The kernel's id of the thread.
  package var id: Int32
  /// The thread's name, empty if unknown.
  package var name: String

  /// The thread `id` called `name`.
  package init(id: Int32, name: String) {
    self.id = id
    self.name = name
  }
}

import CulpritStallRecord

/// What an application says of whose code is whose, beside what can be seen.
package struct OwnershipRules: Hashable, Sendable {
  /// What is the application's own although it does not look like it: names of Swift modules, of packages, of shared libraries,
  /// or paths of sources or libraries with all that is below them.
  package var own: [String]
  /// Functions of the application that are passed over, so that their callers are blamed. With an exclamation mark before it
  /// ("!Lock.wait"), one that is not, although it is called like a lock's and only waits.
  package var wrappers: [String]

  /// Rules that count `own` as the application's, and pass over `wrappers`.
  package init(own: [String] = [], wrappers: [String] = []) {
    self.own = own
    self.wrappers = wrappers
  }

  /// Whether `frame` is the application's own because somebody has said so; `package` is what it looks like it is from.
  func isOwn(_ frame: ResolvedFrame, package: String?) -> Bool {
    own.contains { name in
      if name.hasPrefix("/") {
        return SourcePath(of: frame)?.isBelow(name) ?? false || SourcePath(frame.module).isBelow(name)
      }
      return name == frame.swiftModule || name == package || Self.isLibrary(frame.moduleName, called: name)
    }
  }

  /// Whether `file` is the library `name`: `libshop.so.1` is "libshop.so.1", "libshop.so", "libshop" and "shop".
  private static func isLibrary(_ file: String, called name: String) -> Bool {
    if file == name { return true }
    guard let stem = file.split(separator: ".").first.map(String.init), file.dropFirst(stem.count).hasPrefix(".so")
    else { return false }
    return name == stem || "lib" + name == stem || name == stem + ".so"
  }

  /// Whether `frame` is a function that is passed over.
  func isWrapper(_ frame: ResolvedFrame) -> Bool {
    matches(frame, wrappers.filter { !$0.hasPrefix("!") })
  }

  /// Whether `frame` has the name of a function that takes a lock, and is none of the exceptions.
  func isNamedLikeLock(_ frame: ResolvedFrame) -> Bool {
    guard let path = FunctionPath(frame), !path.isClosure else { return false }
    let isNamed = Self.lockNames.contains(path.name) || Self.lockEndings.contains(where: path.name.hasSuffix)
    return isNamed && !matches(frame, wrappers.filter { $0.hasPrefix("!") }.map { String($0.dropFirst()) })
  }

  /// Names of functions that take a lock, or wait, for their callers.
  private static let lockNames: Set<String> = [
    "lock", "withLock", "withLockVoid", "withLockUnchecked", "acquire", "wait", "synchronized", "readLock",
    "writeLock", "lockRead", "lockWrite", "lockForReading", "lockForWriting", "withReadLock", "withWriteLock",
    "withReaderLock", "withWriterLock", "lock_shared", "lockShared", "lockExclusive", "rdlock", "wrlock",
  ]

  /// Endings of such names in C, where the type is part of the name.
  private static let lockEndings = ["_lock", "_rdlock", "_wrlock", "_acquire"]

  private func matches(_ frame: ResolvedFrame, _ wrappers: [String]) -> Bool {
    guard !wrappers.isEmpty, let function = frame.function else { return false }
    var names = [function]
    if let open = function.firstIndex(of: "("), open != function.startIndex { names.append(String(function[..<open])) }
    if let module = frame.swiftModule { names += names.map { "\(module).\($0)" } }
    if let raw = frame.rawName { names.append(raw) }
    return wrappers.contains { wrapper in
      guard wrapper.hasSuffix("*") else { return names.contains(wrapper) }
      return names.contains { $0.hasPrefix(wrapper.dropLast()) }
    }
  }
}

import CulpritStallRecord

package struct OwnershipRules: Hashable, Sendable {
  /// Code that counts as the application's own: names of Swift modules, packages or shared libraries, or paths of
  /// sources or libraries with everything below.
  package var own: [String]
  /// Application functions that are excluded in favor of their callers. A trailing asterisk matches any ending. A
  /// leading exclamation mark ("!Lock.wait") exempts a function from the detection of lock wrappers.
  package var wrappers: [String]

  package init(own: [String] = [], wrappers: [String] = []) {
    self.own = own
    self.wrappers = wrappers
  }

  func isOwn(_ frame: ResolvedFrame, package: String?) -> Bool {
    own.contains { name in
      if name.hasPrefix("/") {
        return SourcePath(of: frame)?.isBelow(name) ?? false || SourcePath(frame.module).isBelow(name)
      }
      return name == frame.swiftModule || name == package || Self.isLibrary(frame.moduleName, called: name)
    }
  }

  /// Whether `file` is the library `name`: `libshop.so.1` matches "libshop.so.1", "libshop.so", "libshop" and "shop".
  private static func isLibrary(_ file: String, called name: String) -> Bool {
    if file == name { return true }
    guard let stem = file.split(separator: ".").first.map(String.init), file.dropFirst(stem.count).hasPrefix(".so")
    else { return false }
    return name == stem || "lib" + name == stem || name == stem + ".so"
  }

  func isWrapper(_ frame: ResolvedFrame) -> Bool {
    matches(frame, wrappers.filter { !$0.hasPrefix("!") })
  }

  func isNamedLikeLock(_ frame: ResolvedFrame) -> Bool {
    guard let path = FunctionPath(frame), !path.isClosure else { return false }
    let isNamed = Self.lockNames.contains(path.name) || Self.lockEndings.contains(where: path.name.hasSuffix)
    return isNamed && !matches(frame, wrappers.filter { $0.hasPrefix("!") }.map { String($0.dropFirst()) })
  }

  private static let lockNames = words(
    """
    lock withLock withLockVoid withLockUnchecked acquire wait synchronized readLock writeLock lockRead lockWrite
    lockForReading lockForWriting withReadLock withWriteLock withReaderLock withWriterLock lock_shared lockShared
    lockExclusive rdlock wrlock
    """
  )

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

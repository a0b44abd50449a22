import CulpritStallRecord

/// What an application says of whose code is whose, beside what can be seen.
package struct OwnershipRules: Hashable, Sendable {
  /// What is the application's own although it does not look like it: names of Swift modules, of packages, of shared libraries,
  /// or paths of sources or libraries with all that is below them.
  package var own: [String]
  /// Functions of the application's own that are passed over, so that who calls them is to blame.
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

import CulpritStallRecord

struct SourcePath: Hashable {
  /// The path without "." and "..". Absolute, or relative to an unknown directory.
  let path: String
  private let relative: Substring
  private let isBelowDirectory: Bool

  enum Kind: Hashable {
    case own
    case dependency(String)
    case system
  }

  init(_ path: String, in directory: String = "") {
    let directory = Self.normalized(directory)
    let whole = path.hasPrefix("/") || directory.isEmpty ? path : directory + "/" + path
    self.path = Self.normalized(whole)
    isBelowDirectory = directory.count > 1 && self.path.hasPrefix(directory + "/")
    relative = isBelowDirectory ? self.path.dropFirst(directory.count) : self.path[...]
  }

  init?(of frame: ResolvedFrame) {
    var unit: CompilationUnit?
    if case .unit(let found) = frame.origin { unit = found }
    let candidates = [frame.location?.file, unit?.file]
    // "<compiler-generated>" is not a file.
    guard let file = candidates.compactMap({ $0 }).first(where: { !$0.isEmpty && !$0.hasSuffix(">") }) else {
      return nil
    }
    self.init(file, in: unit?.directory ?? "")
  }

  func isBelow(_ place: String) -> Bool {
    let place = Self.normalized(place)
    return path == place || path.hasPrefix(place.hasSuffix("/") ? place : place + "/")
  }

  func isIn(directoryOf module: String) -> Bool {
    path.split(separator: "/").dropLast()
      .contains { directory in
        directory.count == module.count && String(directory.map { $0 == "-" || $0 == "." ? "_" : $0 }) == module
      }
  }

  var kind: Kind {
    let parts = relative.split(separator: "/")
    // Only the path below the working directory identifies dependencies.
    if let package = Self.package(parts, isBelowDirectory: isBelowDirectory) { return .dependency(package) }
    if Self.hasSystemPart(parts) { return .system }
    if !isBelowDirectory, Self.systemBeginnings.contains(where: path.hasPrefix) { return .system }
    return .own
  }

  private static func package(_ parts: [Substring], isBelowDirectory: Bool) -> String? {
    func part(_ index: Int) -> Substring { parts.indices.contains(index) ? parts[index] : "" }
    for index in parts.indices.dropLast() {
      var package: Int?
      switch (part(index - 2), part(index - 1), parts[index]) {
      // Swift packages of SwiftPM, SourceKit and Xcode; crates from git.
      case (_, ".build", "checkouts"), (".build", "index-build", "checkouts"), (_, "SourcePackages", "checkouts"),
        (".cargo", "git", "checkouts"):
        package = index + 1
      // Swift packages built with swift build --scratch-path.
      case (_, _, "checkouts") where !isBelowDirectory: package = index + 1
      // Registries, which have a component for the scope or the registry.
      case (".build", "registry", "downloads"), (".cargo", "registry", "src"): package = index + 2
      // CMake's FetchContent, Conan, vcpkg, Bazel.
      case (_, _, "_deps"), (_, ".conan", "data"), (_, ".conan2", "p"), (_, "vcpkg", "buildtrees"): package = index + 1
      case (_, _, "vcpkg_installed"): package = index + 2
      case ("execroot", _, "external"): package = index + 1
      // Go modules: the component with the version.
      case (_, "pkg", "mod"): package = parts.indices.dropLast().first { $0 > index && parts[$0].contains("@") }
      default: break
      }
      if let package, package < parts.count - 1 {
        let name = part(package)
        return String(parts[index] == "_deps" && name.hasSuffix("-src") ? name.dropLast(4) : name)
      }
    }
    return nil
  }

  private static let systemBeginnings = wordList(
    "/usr/include/ /usr/lib/ /usr/lib64/ /usr/share/swift/ /usr/local/lib/swift/ /home/build-user/ /rustc/"
  )

  private static func hasSystemPart(_ parts: [Substring]) -> Bool {
    zip(parts, parts.dropFirst())
      .contains { pair in
        switch pair {
        case ("include", "c++"), ("lib", "gcc"), ("lib", "clang"), ("lib64", "clang"), ("lib", "swift"),
          ("lib", "swift_static"):
          true
        default: false
        }
      }
  }

  /// Removes "." and ".." from `path` without consulting the file system.
  private static func normalized(_ path: String) -> String {
    guard path.hasPrefix(".") || path.hasSuffix("/") || zip(path.utf8, path.utf8.dropFirst()).contains(where: isOdd)
    else { return path }
    var parts: [Substring] = []
    for part in path.split(separator: "/") {
      if part == "..", let last = parts.last, last != ".." {
        parts.removeLast()
      } else if part != "." {
        parts.append(part)
      }
    }
    return (path.hasPrefix("/") ? "/" : "") + parts.joined(separator: "/")
  }

  private static func isOdd(_ first: UInt8, _ second: UInt8) -> Bool {
    first == UInt8(ascii: "/") && (second == UInt8(ascii: "/") || second == UInt8(ascii: "."))
  }
}

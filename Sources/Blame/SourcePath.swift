import CulpritStallRecord

/// The path of a source file as recorded by a compiler, from which the owner of the file is inferred.
struct SourcePath: Hashable {
  /// The path without "." and "..". Absolute, or relative to an unknown directory.
  let path: String
  /// The part below the compiler's working directory; the whole path if the file is elsewhere.
  private let relative: Substring
  private let isBelowDirectory: Bool

  /// The owner of a source file.
  enum Kind: Hashable {
    /// The package that was built.
    case own
    /// A dependency with this name.
    case dependency(String)
    /// The toolchain or the system.
    case system
  }

  /// Creates a path that was passed to a compiler running in `directory`.
  init(_ path: String, in directory: String = "") {
    let directory = Self.normalized(directory)
    let whole = path.hasPrefix("/") || directory.isEmpty ? path : directory + "/" + path
    self.path = Self.normalized(whole)
    isBelowDirectory = directory.count > 1 && self.path.hasPrefix(directory + "/")
    relative = isBelowDirectory ? self.path.dropFirst(directory.count) : self.path[...]
  }

  /// Creates the path of the source of `frame`; `nil` if it is unknown.
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

  /// Whether the path is `place` or below it.
  func isBelow(_ place: String) -> Bool {
    let place = Self.normalized(place)
    return path == place || path.hasPrefix(place.hasSuffix("/") ? place : place + "/")
  }

  /// Whether the path has a directory with the name of the Swift module `module`, in which some characters are
  /// replaced.
  func isIn(directoryOf module: String) -> Bool {
    path.split(separator: "/").dropLast()
      .contains { directory in
        directory.count == module.count && String(directory.map { $0 == "-" || $0 == "." ? "_" : $0 }) == module
      }
  }

  /// The owner of the file.
  var kind: Kind {
    let parts = relative.split(separator: "/")
    // The location of the working directory is arbitrary. Only the path below it identifies dependencies.
    if let package = Self.package(parts, isBelowDirectory: isBelowDirectory) { return .dependency(package) }
    if Self.hasSystemPart(parts) { return .system }
    if !isBelowDirectory, Self.systemBeginnings.contains(where: path.hasPrefix) { return .system }
    return .own
  }

  /// Returns the package whose fetched sources contain the file with the components `parts`; `nil` if no package
  /// manager put it there.
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
      // The last component is a file.
      if let package, package < parts.count - 1 {
        let name = part(package)
        return String(parts[index] == "_deps" && name.hasSuffix("-src") ? name.dropLast(4) : name)
      }
    }
    return nil
  }

  /// Directories of system headers, and directories in which toolchains are built.
  private static let systemBeginnings = [
    "/usr/include/", "/usr/lib/", "/usr/lib64/", "/usr/share/swift/", "/usr/local/lib/swift/", "/home/build-user/",
    "/rustc/",
  ]

  /// Whether `parts` belongs to a toolchain's headers, wherever it is installed.
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

  /// Whether two consecutive bytes of a path require normalization.
  private static func isOdd(_ first: UInt8, _ second: UInt8) -> Bool {
    first == UInt8(ascii: "/") && (second == UInt8(ascii: "/") || second == UInt8(ascii: "."))
  }
}

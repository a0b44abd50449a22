import CulpritStallRecord

/// Whose code a function is.
///
/// Blame is useful only where somebody can act on it, so it goes to the application's own code: not to the C library that
/// was asked to sleep, nor to the Swift runtime that copied an array, nor to a package that was handed a closure.
///
/// What compilers note tells most: where the source file is, for inlined and generic code that of the function that it was written
/// in. Where there is no debug information the Swift module tells, and at last the name.
package enum CodeOwner: Hashable, Sendable {
  /// The application's: the package that was built.
  case own
  /// A package's that the application depends on; or one of its own functions that is to be passed over.
  case dependency
  /// The system's or the toolchain's.
  case system
  /// An entry point of the application's: it holds all of a thread's time by its nature, so it is an answer only to what is spent in
  /// itself.
  case entry

  /// Whose code `frame` is, by `rules` and by what is known of it.
  package static func owner(of frame: ResolvedFrame, _ rules: OwnershipRules = OwnershipRules()) -> CodeOwner {
    guard frame.module.hasPrefix("/") else { return .system }
    let kind = SourcePath(of: frame)?.kind
    var package: String?
    if case .dependency(let name) = kind { package = name }
    let owner = rules.isOwn(frame, package: package) ? ownOrEntry(frame) : owner(of: frame, kind)
    return owner == .own && rules.isWrapper(frame) ? .dependency : owner
  }

  /// The package that `frame` is from; `nil` when it is none that the application depends on, or that is not known.
  package static func package(of frame: ResolvedFrame) -> String? {
    guard case .dependency(let name) = SourcePath(of: frame)?.kind else { return nil }
    return name
  }

  /// Whether `frame` is in the application's own code and not merely its entry point.
  package static func isApplication(_ frame: ResolvedFrame, _ rules: OwnershipRules = OwnershipRules()) -> Bool {
    owner(of: frame, rules) == .own
  }

  /// The same without rules; the source file is `kind`.
  private static func owner(of frame: ResolvedFrame, _ kind: SourcePath.Kind?) -> CodeOwner {
    if SystemLibraries.contains(frame.module) || GoNames.isStandard(frame) { return .system }
    if let module = frame.swiftModule {
      if SystemNames.swiftModules.contains(module) { return .system }
    } else if let name = frame.rawName, name.hasPrefix("$s") || name == ".plt" {
      // Glue of the compiler's or the linker's that belongs to nobody.
      return .system
    }
    switch kind {
    case .system: return .system
    case .dependency: return .dependency
    case .own: return isEntry(frame) ? .entry : isWritten(frame) ? .own : .system
    case nil: break
    }
    // Nothing tells where it was written.
    if isEntry(frame) { return .entry }
    // Of a type's witnesses the name has the type, and no module; what extends a type of the system's has a unit.
    if let name = frame.rawName, frame.swiftModule == nil || frame.origin == .undescribed, SystemNames.contains(name) {
      return .system
    }
    // Else it came compiled, in an archive.
    return frame.origin == .undescribed ? .dependency : .own
  }

  /// Whether somebody has written `frame` where its unit is. The compiler puts witnesses, specialisations and helpers into the unit
  /// that needs them, whatever they are of: where no line tells, the module must be that of the unit. Where debug information does not
  /// tell that one, its directory is called as the module is.
  private static func isWritten(_ frame: ResolvedFrame) -> Bool {
    // Nobody has written how a global is reached, which may mean to wait for its first use (docs/ABI/Mangling.rst of Swift's).
    if let name = frame.rawName, name.hasPrefix("$s"), name.hasSuffix("vau") || name.hasSuffix("vauZ") { return false }
    guard frame.location == nil else { return true }
    guard frame.kind == .function, !isSynthesized(frame) else { return false }
    guard let module = frame.swiftModule else { return frame.rawName?.hasPrefix("__swift_") != true }
    if case .unit(let unit) = frame.origin, let own = unit.swiftModule { return own == module }
    return SourcePath(of: frame)?.isIn(directoryOf: module) ?? true
  }

  /// Whether the function of `frame`, which comes from no line, is one that the compiler writes itself: how a stored property is
  /// reached, how its value begins, and what a type does that was derived for it (docs/ABI/Mangling.rst of Swift's).
  private static func isSynthesized(_ frame: ResolvedFrame) -> Bool {
    guard var name = frame.rawName?[...], name.hasPrefix("$s") else { return false }
    if name.contains("__derived_") { return true }
    if let resume = name.firstRange(of: ".resume.") { name = name[..<resume.lowerBound] }
    if name.hasSuffix("Z") { name = name.dropLast() }
    return synthesized.contains(where: name.hasSuffix)
  }

  /// The endings of getters, setters, coroutines that read and modify, and initial values; of derived witnesses of Hashable, Encodable
  /// and Decodable.
  private static let synthesized = [
    "vg", "vs", "vM", "vr", "vx", "vy", "vpfi", "4hash4intoys6HasherVz_tF", "6encode2toys7Encoder_p_tKF",
    "s7Decoder_p_tKcfC", "s7Decoder_p_tKcfc",
  ]

  private static func ownOrEntry(_ frame: ResolvedFrame) -> CodeOwner { isEntry(frame) ? .entry : .own }

  private static let entryPoints: Set<String> = ["main", "_start", "async_Main", "start_thread", "clone3", "__clone3"]

  /// Whether the entry point `frame` is one that somebody has written, and none of the C library's.
  static func isWrittenEntryPoint(_ frame: ResolvedFrame) -> Bool {
    guard let name = frame.rawName else { return false }
    return name.hasPrefix("async_Main") || name == "main" || name.hasSuffix("_main")
  }

  private static func isEntry(_ frame: ResolvedFrame) -> Bool {
    guard let name = frame.rawName else { return false }
    if entryPoints.contains(name) { return true }
    // The package manager calls an executable's entry point by its module.
    return name.hasSuffix("_main")
      && name == String(frame.moduleName.map { $0 == "-" || $0 == "." ? "_" : $0 }) + "_main"
  }
}

/// Shared libraries that are the toolchain's or the system's.
private enum SystemLibraries {
  /// Directories of the system's libraries; what lies deeper in them belongs to somebody's product.
  private static let directories: Set<String> = [
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib/swift/linux", "/usr/lib/swift/linux",
  ]

  /// Libraries that services ship beside the executable.
  private static let names = [
    "lib_Foundation", "libFoundation", "libdispatch.so", "libBlocksRuntime.so", "lib_InternalSwift", "libTesting.so",
    "lib_Testing", "libXCTest.so", "libc.so", "libpthread.so", "libm.so", "libdl.so", "libstdc++.so", "libgcc_s.so",
    "ld-linux", "ld-musl", "libunwind",
  ]

  /// Whether the file at `path` is one.
  static func contains(_ path: String) -> Bool {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return false }
    return isInDirectory(path[..<slash]) || isName(path[path.index(after: slash)...])
  }

  /// `libswiftCore.so` and `libswift_Concurrency.so` are; `libswiftly.so` is somebody's own.
  private static func isName(_ name: Substring) -> Bool {
    if name.hasPrefix("libswift"), let next = name.dropFirst(8).first { return next == "_" || next.isUppercase }
    return names.contains { name.hasPrefix($0) }
  }

  /// `/usr/lib/libz.so.1` and `/usr/lib/x86_64-linux-gnu/libz.so.1` are; `/usr/lib/shop/plugin.so` is not.
  private static func isInDirectory(_ directory: Substring) -> Bool {
    if directories.contains(String(directory)) { return true }
    guard directory.hasSuffix("-linux-gnu"), let parent = directory.utf8.lastIndex(of: UInt8(ascii: "/")) else {
      return false
    }
    return directories.contains(String(directory[..<parent]))
  }
}

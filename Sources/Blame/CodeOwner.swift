import CulpritStallRecord

/// The owner of a function's code.
///
/// Blame goes to the application's own code, because developers can change it.
///
/// The best evidence is the source file in the debug information. For inlined and generic code, this is the file in
/// which the function was written. Without debug information, the Swift module decides, then the name.
package enum CodeOwner: Hashable, Sendable {
  case own
  /// A package that the application depends on, or an application function excluded by the rules.
  case dependency
  case system
  /// An entry point of the application. Only its self time counts for blame.
  case entry

  package static func owner(of frame: ResolvedFrame, _ rules: OwnershipRules = OwnershipRules()) -> CodeOwner {
    guard frame.module.hasPrefix("/") else { return .system }
    let kind = SourcePath(of: frame)?.kind
    var package: String?
    if case .dependency(let name) = kind { package = name }
    let owner = rules.isOwn(frame, package: package) ? ownOrEntry(frame) : owner(of: frame, kind)
    return owner == .own && rules.isWrapper(frame) ? .dependency : owner
  }

  package static func package(of frame: ResolvedFrame) -> String? {
    guard case .dependency(let name) = SourcePath(of: frame)?.kind else { return nil }
    return name
  }

  package static func isApplication(_ frame: ResolvedFrame, _ rules: OwnershipRules = OwnershipRules()) -> Bool {
    owner(of: frame, rules) == .own
  }

  private static func owner(of frame: ResolvedFrame, _ kind: SourcePath.Kind?) -> CodeOwner {
    if SystemLibraries.contains(frame.module) || GoNames.isStandard(frame) { return .system }
    if let module = frame.swiftModule {
      if SystemNames.swiftModules.contains(module) { return .system }
    } else if let name = frame.rawName, name.hasPrefix("$s") || name == ".plt" {
      return .system
    }
    switch kind {
    case .system: return .system
    case .dependency: return .dependency
    case .own: return isEntry(frame) ? .entry : isWritten(frame) ? .own : .system
    case nil: break
    }
    if isEntry(frame) { return .entry }
    // The names of a type's witnesses contain the type, but no module. Extensions of system types have a compilation
    // unit.
    if let name = frame.rawName, frame.swiftModule == nil || frame.origin == .undescribed, SystemNames.contains(name) {
      return .system
    }
    // Code without a compilation unit was precompiled, for example in an archive.
    return frame.origin == .undescribed ? .dependency : .own
  }

  /// Whether `frame` was written in its compilation unit, to which the compiler adds witnesses, specializations and
  /// helpers. Without a line number, the function's module must be the unit's module. If the unit's module is unknown,
  /// a directory of the file must have the name of the function's module.
  private static func isWritten(_ frame: ResolvedFrame) -> Bool {
    // A global's accessor is generated. It can wait for the initialization (Swift's docs/ABI/Mangling.rst).
    if let name = frame.rawName, name.hasPrefix("$s"), name.hasSuffix("vau") || name.hasSuffix("vauZ") { return false }
    guard frame.location == nil else { return true }
    guard frame.kind == .function, !isSynthesized(frame) else { return false }
    guard let module = frame.swiftModule else { return frame.rawName?.hasPrefix("__swift_") != true }
    if case .unit(let unit) = frame.origin, let own = unit.swiftModule { return own == module }
    return SourcePath(of: frame)?.isIn(directoryOf: module) ?? true
  }

  /// Whether the compiler synthesized the function of `frame`, a frame without a line number (Swift's
  /// docs/ABI/Mangling.rst).
  private static func isSynthesized(_ frame: ResolvedFrame) -> Bool {
    guard var name = frame.rawName?[...], name.hasPrefix("$s") else { return false }
    if name.contains("__derived_") { return true }
    // Suffix of a function with arguments changed by the optimizer.
    if let variant = name.firstRange(of: "Tf4") { name = name[..<variant.lowerBound] }
    if name.hasSuffix("_tcfC"), rawInitializers.contains(where: name.contains) { return true }
    if let resume = name.firstRange(of: ".resume.") { name = name[..<resume.lowerBound] }
    if name.hasSuffix("Z") { name = name.dropLast() }
    return synthesized.contains(where: name.hasSuffix)
  }

  /// Suffixes of getters, setters, read and modify coroutines, initial values, and derived witnesses of Hashable,
  /// Encodable and Decodable.
  private static let synthesized = wordList(
    "vg vs vM vr vx vy vpfi 4hash4intoys6HasherVz_tF 6encode2toys7Encoder_p_tKF s7Decoder_p_tKcfC s7Decoder_p_tKcfc"
  )

  /// Names of `init(rawValue:)` and the initializers of coding keys.
  private static let rawInitializers = ["8rawValue", "11stringValue", "8intValue"]

  private static func ownOrEntry(_ frame: ResolvedFrame) -> CodeOwner { isEntry(frame) ? .entry : .own }

  private static let entryPoints = words("main _start async_Main start_thread clone3 __clone3")

  /// Whether the entry point `frame` comes from source code, not from the C library.
  static func isWrittenEntryPoint(_ frame: ResolvedFrame) -> Bool {
    guard let name = frame.rawName else { return false }
    return name.hasPrefix("async_Main") || name == "main" || name.hasSuffix("_main")
  }

  private static func isEntry(_ frame: ResolvedFrame) -> Bool {
    guard let name = frame.rawName else { return false }
    if entryPoints.contains(name) { return true }
    // The package manager names an entry point after the executable's module.
    return name.hasSuffix("_main")
      && name == String(frame.moduleName.map { $0 == "-" || $0 == "." ? "_" : $0 }) + "_main"
  }
}

private enum SystemLibraries {
  private static let directories = words(
    "/lib /lib64 /usr/lib /usr/lib64 /usr/local/lib/swift/linux /usr/lib/swift/linux"
  )

  /// Libraries that services ship with the executable.
  private static let names = wordList(
    """
    lib_Foundation libFoundation libdispatch.so libBlocksRuntime.so lib_InternalSwift libTesting.so lib_Testing
    libXCTest.so libc.so libpthread.so libm.so libdl.so libstdc++.so libgcc_s.so ld-linux ld-musl libunwind
    """
  )

  static func contains(_ path: String) -> Bool {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return false }
    return isInDirectory(path[..<slash]) || isName(path[path.index(after: slash)...])
  }

  /// Whether `name` belongs to the toolchain, such as `libswiftCore.so` and `libswift_Concurrency.so`, but not
  /// `libswiftly.so`.
  private static func isName(_ name: Substring) -> Bool {
    if name.hasPrefix("libswift"), let next = name.dropFirst(8).first { return next == "_" || next.isUppercase }
    return names.contains { name.hasPrefix($0) }
  }

  /// Whether `directory` holds system libraries. Its subdirectories belong to products.
  private static func isInDirectory(_ directory: Substring) -> Bool {
    if directories.contains(String(directory)) { return true }
    guard directory.hasSuffix("-linux-gnu"), let parent = directory.utf8.lastIndex(of: UInt8(ascii: "/")) else {
      return false
    }
    return directories.contains(String(directory[..<parent]))
  }
}

import StallRecord

/// Whose code a function is: the application's, or the ground it stands on.
///
/// Blame is useful only where somebody can act on it, so it goes to the application's own code: not to the C library that
/// was asked to sleep, nor to the Swift runtime that copied an array.
enum CodeOwner {
  /// Swift modules that come with the toolchain or with Culprit.
  private static let systemSwiftModules: Set<String> = [
    "Swift", "_Concurrency", "_StringProcessing", "_RegexParser", "RegexBuilder", "Synchronization", "Observation",
    "Distributed", "Dispatch", "Foundation", "FoundationEssentials", "FoundationInternationalization",
    "FoundationNetworking", "FoundationXML", "CoreFoundation", "Glibc", "Musl", "Cxx", "CxxStdlib", "XCTest", "Testing",
    "Culprit", "__C", "SwiftShims", "Runtime",
  ]

  /// Directories of the system's libraries; what lies deeper in them belongs to somebody's product.
  private static let systemDirectories: Set<String> = [
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib/swift/linux", "/usr/lib/swift/linux",
  ]

  /// The toolchain's libraries, wherever they were installed: services ship them beside the executable.
  private static let systemLibraries = [
    "libswift", "lib_Foundation", "libFoundation", "libdispatch.", "libBlocksRuntime.", "lib_InternalSwift",
    "libTesting.",
    "lib_Testing", "libXCTest.", "libc.so", "libc-", "libpthread", "libm.so", "libdl.", "libstdc++", "libgcc_s",
    "ld-linux",
    "ld-musl", "libunwind",
  ]

  /// C functions of those libraries that a static link puts into the executable, and the entry points.
  private static let systemPrefixes = [
    "swift_", "_swift_", "dispatch_", "_dispatch_", "CFRunLoop", "__CFRunLoop", "__CFRUNLOOP", "_CF", "observer_",
    "run_loop_", "__libc_", "_start", "$ss", "$sS",
  ]

  /// Entry points: they hold all of a thread's time by their nature, so they are never an answer.
  private static let entryPoints: Set<String> = ["main", "_start", "async_Main", "start_thread", "clone3", "__clone3"]

  /// Whether `frame` is in the application's own code and not merely its entry point.
  static func isApplication(_ frame: ResolvedFrame) -> Bool {
    if let rawName = frame.rawName {
      if entryPoints.contains(rawName) || rawName.hasSuffix("_main") && frame.function == rawName { return false }
    }
    if frame.module.isEmpty || !frame.module.hasPrefix("/") { return false }
    let name = frame.moduleName
    if systemLibraries.contains(where: { name.hasPrefix($0) }) || isInSystemDirectory(frame.module) { return false }
    if let module = frame.swiftModule { return !systemSwiftModules.contains(module) }
    guard let rawName = frame.rawName else { return true }
    // Swift glue that belongs to no module (thunks, outlined copies).
    if rawName.hasPrefix("$s") { return false }
    return !systemPrefixes.contains { rawName.hasPrefix($0) }
  }

  /// `/usr/lib/libz.so.1` and `/usr/lib/x86_64-linux-gnu/libz.so.1` are; `/usr/lib/shop/plugin.so` is not.
  private static func isInSystemDirectory(_ path: String) -> Bool {
    guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")) else { return false }
    let directory = path[..<slash]
    if systemDirectories.contains(String(directory)) { return true }
    guard let parent = directory.utf8.lastIndex(of: UInt8(ascii: "/")) else { return false }
    return directory[directory.index(after: parent)...].hasSuffix("-linux-gnu")
      && systemDirectories.contains(String(directory[..<parent]))
  }
}

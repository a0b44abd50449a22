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
    "Culprit", "__C", "SwiftShims",
  ]

  /// Directories of the system's libraries; what lies deeper in them belongs to somebody's product.
  private static let systemDirectories: Set<String> = [
    "/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib/swift/linux", "/usr/lib/swift/linux",
  ]

  /// The toolchain's and the system's libraries, wherever they were installed: services ship them beside the executable.
  private static let systemLibraries = [
    "lib_Foundation", "libFoundation", "libdispatch.so", "libBlocksRuntime.so", "lib_InternalSwift", "libTesting.so",
    "lib_Testing", "libXCTest.so", "libc.so", "libpthread.so", "libm.so", "libdl.so", "libstdc++.so", "libgcc_s.so",
    "ld-linux", "ld-musl", "libunwind",
  ]

  /// Functions of those libraries that a static link or an instantiation puts into the executable: the Swift runtime,
  /// Dispatch, Core Foundation's run loop, the C++ library's templates (Itanium C++ ABI, 5.1.4.2: St is std), the stubs
  /// that the linker makes.
  private static let systemPrefixes = [
    "swift_", "_swift_", "_dispatch_", "CFRunLoop", "__CFRunLoop", "__CFRUNLOOP", "$ss", "$sS", "_ZSt", "_ZNSt",
    "_ZNKSt",
    "_ZN9__gnu_cxx", "_ZNK9__gnu_cxx", ".plt",
    // What sanitizers put beside and in front of the functions of an executable.
    "__tsan_", "_ZN6__tsan", "__asan_", "_ZN6__asan", "_ZN11__sanitizer", "__sanitizer_", "__interceptor_",
    "___interceptor_",
  ]

  /// Entry points: they hold all of a thread's time by their nature, so they are never an answer.
  private static let entryPoints: Set<String> = ["main", "_start", "async_Main", "start_thread", "clone3", "__clone3"]

  /// Whether `frame` is in the application's own code and not merely its entry point.
  static func isApplication(_ frame: ResolvedFrame) -> Bool {
    guard frame.module.hasPrefix("/") else { return false }
    let name = frame.moduleName
    if isSystemLibrary(name) || isInSystemDirectory(frame.module) { return false }
    if let module = frame.swiftModule { return !systemSwiftModules.contains(module) }
    guard let rawName = frame.rawName else { return true }
    // The package manager calls an executable's entry point by its module.
    let entryPoint = String(name.map { $0 == "-" || $0 == "." ? "_" : $0 }) + "_main"
    if entryPoints.contains(rawName) || rawName == entryPoint { return false }
    // Swift glue that belongs to no module (thunks, outlined copies).
    if rawName.hasPrefix("$s") { return false }
    return !systemPrefixes.contains { rawName.hasPrefix($0) }
  }

  /// `libswiftCore.so` and `libswift_Concurrency.so` are; `libswiftly.so` is somebody's own.
  private static func isSystemLibrary(_ name: String) -> Bool {
    if name.hasPrefix("libswift"), let next = name.dropFirst(8).first { return next == "_" || next.isUppercase }
    return systemLibraries.contains { name.hasPrefix($0) }
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

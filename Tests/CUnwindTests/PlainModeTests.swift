import CCulpritUnwind
import Foundation
import Glibc
import Testing

/// libunwind is missing at run time.
@Suite struct PlainModeTests {
  @Test func loadsLibunwind() {
    #expect(cunwind_load() == nil)
    #expect(cunwind_missing_library() == nil)
  }

  /// Uses a child process, in which an empty file is mounted over the library.
  @Test(.enabled(if: Absence.isPermitted, "mount namespaces are not permitted here"))
  func unwindsWithoutLibunwind() async {
    await #expect(processExitsWith: .success) {
      try Absence.hideLibunwind()
      let host = try #require(cunwind_host())
      #expect(cunwind_load() == nil)
      let reason = try #require(cunwind_missing_library())
      #expect(String(cString: reason).contains("libunwind8"))
      #expect(cunwind_library_is_private())
      let room = UnsafeMutableRawPointer.allocate(byteCount: cunwind_bytes(), alignment: 64)
      memset(room, 0, cunwind_bytes())
      let unwinder = try #require(cunwind_create(room, host, unwind_process()))
      #expect(cunwind_use_libunwind(unwinder, true) == nil)
      let stacks = try RecordedStack.all(String(cString: host.pointee.name)).filter { $0.after == nil }
      #expect(stacks.count > 20)
      for stack in stacks {
        let found = try FixtureUnwinder(stack.architecture).unwind(stack)
        #expect(found.outcome == stack.plain, "\(stack.name)")
        #expect(found.frames == stack.frames(like: found), "\(stack.name)")
      }
    }
  }
}

private enum Absence {
  enum Failure: Error { case namespace(Int32), mount(String, Int32), nothing }

  /// Whether mount namespaces are permitted (root, or CAP_SYS_ADMIN).
  static let isPermitted: Bool = {
    let trial = Process()
    trial.executableURL = URL(fileURLWithPath: "/usr/bin/unshare")
    trial.arguments = ["--mount", "/bin/true"]
    trial.standardError = FileHandle.nullDevice
    guard (try? trial.run()) != nil else { return false }
    trial.waitUntilExit()
    return trial.terminationStatus == 0
  }()

  /// Mounts an empty file over libunwind in the calling thread's namespace.
  static func hideLibunwind() throws {
    guard let host = cunwind_host() else { return }
    let architecture = String(cString: host.pointee.name)
    let libraries = Set(
      ["/usr/lib/\(architecture)-linux-gnu", "/lib/\(architecture)-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib"]
        .map { URL(fileURLWithPath: "\($0)/libunwind-\(architecture).so.8").resolvingSymlinksInPath().path }
        .filter { FileManager.default.fileExists(atPath: $0) }
    )
    guard !libraries.isEmpty else { throw Failure.nothing }
    // By name, because some versions of the Glibc module lack it.
    typealias Unshare = @convention(c) (Int32) -> Int32
    guard let symbol = dlsym(nil, "unshare") else { throw Failure.namespace(ENOSYS) }
    // SAFETY: the symbol is unshare(2), which takes an int and returns one.
    guard unsafeBitCast(symbol, to: Unshare.self)(0x0002_0000) == 0 else { throw Failure.namespace(errno) }
    guard mount("none", "/", nil, UInt(MS_REC | MS_PRIVATE), nil) == 0 else {
      throw Failure.mount("/", errno)
    }
    let empty = FileManager.default.temporaryDirectory.appendingPathComponent("empty-\(getpid())").path
    try Data().write(to: URL(fileURLWithPath: empty))
    defer { unlink(empty) }
    for library in libraries {
      guard mount(empty, library, nil, UInt(MS_BIND), nil) == 0 else { throw Failure.mount(library, errno) }
    }
  }
}

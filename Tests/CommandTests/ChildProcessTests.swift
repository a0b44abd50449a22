import Foundation
import TestSupport
import Testing

/// Children inherit nothing that happens to be set in the test process.
@Suite(.ownThread) struct ChildProcessTests {
  /// Dispatch blocks most signals on its threads; a service that inherited that mask would ignore SIGTERM.
  @Test func clearsSignalMaskAndIgnoredSignals() throws {
    var (all, before) = (sigset_t(), sigset_t())
    sigfillset(&all)
    pthread_sigmask(SIG_SETMASK, &all, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    // Unused elsewhere in this process.
    let former = signal(SIGXFSZ, SIG_IGN)
    defer { signal(SIGXFSZ, former) }
    let child = try ChildProcess("/bin/cat", ["/proc/self/status"])
    for field in ["SigBlk", "SigIgn"] {
      let line = try #require(child.output.split(separator: "\n").first { $0.hasPrefix(field + ":\t") })
      let signals = try #require(UInt64(line.dropFirst(field.count + 2), radix: 16))
      // 32 and 33 are reserved by the C library.
      #expect(signals & ~0x1_8000_0000 == 0, "\(line)")
    }
  }

  @Test func passesOnlyStandardDescriptors() throws {
    let descriptor = open("/dev/null", O_RDONLY)
    defer { close(descriptor) }
    let child = try ChildProcess("/bin/ls", ["/proc/self/fd"])
    // 3 is the directory.
    #expect(child.output == "0\n1\n2\n3\n")
  }

  @Test func survivesWritesToClosedPipe() throws {
    let before = signal(SIGPIPE, SIG_DFL)
    signal(SIGPIPE, before)
    let process = try RunningProcess("/bin/true", [])
    process.end()
    // Children that other tests are starting hold copies of the pipe until they call exec(2).
    while process.write(Data("unread".utf8)) { usleep(1000) }
    let after = signal(SIGPIPE, SIG_DFL)
    signal(SIGPIPE, after)
    #expect(after == nil && before == nil)
    var pending = sigset_t()
    sigpending(&pending)
    #expect(sigismember(&pending, SIGPIPE) == 0)
  }
}

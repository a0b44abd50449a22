import Foundation
import TestSupport
import Testing

/// Children inherit no signal state and no descriptors from the test process.
@Suite(.ownThread) struct ChildProcessTests {
  /// A child must start with no signal blocked or ignored, even if its parent's thread blocks signals, as threads of
  /// Dispatch do.
  @Test func clearsSignalMaskAndIgnoredSignals() throws {
    var (all, before) = (sigset_t(), sigset_t())
    sigfillset(&all)
    pthread_sigmask(SIG_SETMASK, &all, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    // No other code of this process uses SIGXFSZ.
    let former = signal(SIGXFSZ, SIG_IGN)
    defer { signal(SIGXFSZ, former) }
    let child = try ChildProcess("/bin/cat", ["/proc/self/status"])
    for field in ["SigBlk", "SigIgn"] {
      let line = try #require(child.output.split(separator: "\n").first { $0.hasPrefix(field + ":\t") })
      let signals = try #require(UInt64(line.dropFirst(field.count + 2), radix: 16))
      // The C library reserves the signals 32 and 33.
      #expect(signals & ~0x1_8000_0000 == 0, "\(line)")
    }
  }

  @Test func passesOnlyStandardDescriptors() throws {
    let descriptor = open("/dev/null", O_RDONLY)
    defer { close(descriptor) }
    let child = try ChildProcess("/bin/ls", ["/proc/self/fd"])
    // Descriptor 3 is the listed directory.
    #expect(child.output == "0\n1\n2\n3\n")
  }

  @Test func survivesWritesToClosedPipe() throws {
    let before = signal(SIGPIPE, SIG_DFL)
    signal(SIGPIPE, before)
    let process = try RunningProcess("/bin/true", [])
    process.end()
    // Repeats the write, because new children of other tests keep the pipe open until exec(2).
    while process.write(Data("unread".utf8)) { usleep(1000) }
    let after = signal(SIGPIPE, SIG_DFL)
    signal(SIGPIPE, after)
    #expect(after == nil && before == nil)
    var pending = sigset_t()
    sigpending(&pending)
    #expect(sigismember(&pending, SIGPIPE) == 0)
  }
}

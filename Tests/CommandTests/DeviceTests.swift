import CulpritStallRecord
import Foundation
import SampleRecordings
import Synchronization
import TestSupport
import Testing

/// The command must open only regular files, because root runs it on files and paths of other users.
@Suite(.ownThread) struct DeviceTests {
  @TemporaryDirectory private var directory: String

  /// A FIFO that detects a reader: its writer is blocked until another process opens the FIFO.
  private final class Trap: Sendable {
    private let path: String
    private let opened = Atomic<Bool>(false)
    private let ended = DispatchSemaphore(value: 0)

    init(_ path: String) throws {
      try #require(mkfifo(path, 0o600) == 0)
      self.path = path
      Thread.detachNewThread { [self] in
        let descriptor = open(path, O_WRONLY | O_CLOEXEC)
        opened.store(true, ordering: .releasing)
        close(descriptor)
        ended.signal()
      }
    }

    /// Whether the FIFO has been opened. Removes the trap.
    func wasOpened() -> Bool {
      let answer = opened.load(ordering: .acquiring)
      let own = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
      ended.wait()
      close(own)
      return answer
    }
  }

  private func culpritWithLimit(_ words: [String]) throws -> Outcome {
    try CommandTests.run(
      URL(fileURLWithPath: "/usr/bin/timeout"),
      ["--signal=KILL", "60", builtProgram("culprit").path] + words
    )
  }

  @Test(arguments: ["/dev/zero", "/dev/full", "/dev/null", "/dev/tty", "fifo.stall", "socket.stall"])
  func rejectsSpecialFiles(path: String) throws {
    let path = path.hasPrefix("/") ? path : "\(directory)/\(path)"
    let trap = path.hasSuffix("fifo.stall") ? try Trap(path) : nil
    if path.hasSuffix("socket.stall") { try #require(mknod(path, S_IFSOCK | 0o600, 0) == 0) }
    let link = "\(directory)/link.stall"
    try #require(symlink(path, link) == 0)
    for name in [path, link] {
      for command in ["report", "info"] {
        let outcome = try culpritWithLimit([command, name])
        #expect(outcome.status == 1 && outcome.out == "", "\(outcome)")
        #expect(outcome.error == "culprit: \(name): not a regular file\n", "\(outcome)")
      }
    }
    if let trap { #expect(!trap.wasOpened()) }
  }

  @Test func opensOnlyRegularFilesAsModules() throws {
    let trap = try Trap("\(directory)/trap")
    let address: UInt64 = 0x10000
    let module = Module("\(directory)/trap", [1, 2, 3, 4], at: address..<address + 4096)
    let stall = Stall(
      "main",
      began: 5,
      samples: [Sample(age: .seconds(1), stack: 0, outcome: .captured, cpuTime: nil)],
      duration: .seconds(2),
      hasEnded: true
    )
    let stack = Stack(frames: [.programCounter(RuntimeAddress(address))], end: .outermost)
    let process = ObservedProcess(7, "/a", since: 5)
    let recording = Recording(process: process, modules: [module], stacks: [stack], stalls: [stall])
    let path = "\(directory)/forged.stall"
    try Data(StallFileWriter.file(of: recording)).write(to: URL(fileURLWithPath: path))
    let outcome = try culpritWithLimit(["report", "--width=500", path])
    #expect(outcome.status == 0 && outcome.out.contains("is not a regular file"), "\(outcome)")
    #expect(!trap.wasOpened())
  }

  @Test func neverReplacesSpecialFiles() throws {
    let (fifo, link, saved) = ("\(directory)/fifo", "\(directory)/link", "\(directory)/saved.stall")
    try #require(mkfifo(fifo, 0o600) == 0 && symlink(fifo, link) == 0)
    try Data(StallFileWriter.file(of: Recording(process: nil))).write(to: URL(fileURLWithPath: saved))
    for path in [fifo, link] {
      let outcome = try culpritWithLimit(["symbolize", "-o", path, saved])
      #expect(outcome.status == 1 && outcome.error == "culprit: \(path): not a regular file\n", "\(outcome)")
    }
    var (ofFifo, ofLink) = (stat(), stat())
    try #require(lstat(fifo, &ofFifo) == 0 && lstat(link, &ofLink) == 0)
    #expect(ofFifo.st_mode & S_IFMT == S_IFIFO && ofLink.st_mode & S_IFMT == S_IFLNK)
    #expect(try culpritWithLimit(["symbolize", "-o", "/dev/fd/1", saved]).out.hasPrefix("CULPRIT"))
  }

  /// Paths of open descriptors must be read, as in `culprit report <(ssh host cat file)`.
  @Test func readsOpenDescriptors() throws {
    for path in ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
      let outcome = try culprit(["info", path], input: Data("not a stall file".utf8))
      #expect(outcome.status == 1 && outcome.error.contains("is not a .stall file"), "\(outcome)")
    }
  }
}

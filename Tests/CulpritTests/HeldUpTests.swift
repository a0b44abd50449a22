import FaultyDisks
import Foundation
import TestSupport
import Testing

/// Stalls in which the kernel holds up whoever takes the address space's lock, or asks for a page that does not come.
@Suite(.ownThread, .serialized) struct HeldUpTests {
  static let limit: Int32 = 60_000

  /// A thread waits in a page fault that a frozen file system does not answer, and another one, which wants to write to the
  /// map of the address space, for that: who reads memory by process_vm_readv waits for both.
  @Test(.enabled(if: FaultyDisk.obstacle == nil, "needs root, loop devices and mkfs.ext4"))
  func aStallInAPageFaultIsSeen() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 8, seconds: 120)
    defer { disk.remove() }
    let place = try TemporaryPlace()
    let systemd = try SystemdListener(place.path + "/notify")
    let service = try ServiceProcess(besideThis: "held-up-process", ["frozen", disk.path + "/file", systemd.name])
    try #require(service.line(within: Self.limit) == "byte=0")
    try #require(service.line(within: Self.limit) == "ready")
    try disk.freeze()
    defer { _ = disk.thaw() }
    service.tell("stall")
    // From slots and clocks alone. Handlers and stacks may have to wait for the lock.
    var told: [String] = []
    while !told.contains("hanging=store"), let line = service.line(within: Self.limit) { told.append(line) }
    // It is the whole of it that is timed: the file system is frozen still.
    #expect(told.contains("hanging=store"), "\(told)")
    // Nor is systemd told that all is well, while nothing can be read. What is under way then is not meant.
    usleep(400_000)
    #expect(systemd.heard().contains("WATCHDOG=1"))
    usleep(1_500_000)
    #expect(!systemd.heard().contains("WATCHDOG=1"))
    service.tell("limitations")
    // Answered after the thaw if it has to wait for the lock.
    if let line = service.line(within: 1000) { told.append(line) }
    #expect(disk.thaw())
    var durations: [Int] = []
    while durations.count < 2, let line = service.line(within: Self.limit) {
      told.append(line)
      if line.hasPrefix("duration=") { durations.append(Int(line.dropFirst(9)) ?? 0) }
    }
    #expect(durations.count == 2 && durations.allSatisfy { $0 >= 2 }, "\(told)")
    // Threads whose pages are in memory are sampled all the while, unless samplers have touched pages that are not.
    let midway = told.first { $0.hasPrefix("bystander midway=") }
    let areHeldUp = told.contains { $0.hasPrefix("limitations=") && $0.contains("the kernel holds up ") }
    #expect(midway != nil && (midway != "bystander midway=0" || areHeldUp), "\(told)")
    #expect(told.contains("began=store"))
    #expect(told.contains("hang=store"))
    // Nobody else.
    #expect(told.contains("culprit=store_into_frozen_file") || told.contains("culprit=nobody"))
    service.tell("end")
    let rest = service.rest()
    #expect(rest.contains("stopped=true"))
    #expect(service.end() == 0)
  }

  /// The end of the process is decided all the same. It comes when the kernel lets go of the thread.
  @Test(.enabled(if: FaultyDisk.obstacle == nil, "needs root, loop devices and mkfs.ext4"))
  func aStallInAPageFaultIsTheEnd()
    throws
  {
    let disk = try FaultyDisk(.ext4, mebibytes: 8, seconds: 120)
    defer { disk.remove() }
    let service = try ServiceProcess(besideThis: "held-up-process", ["terminate", disk.path + "/file"])
    try #require(service.line(within: Self.limit) == "byte=0")
    try #require(service.line(within: Self.limit) == "ready")
    try disk.freeze()
    defer { _ = disk.thaw() }
    service.tell("stall")
    var said: String?
    while said == nil, let line = service.line(within: Self.limit) {
      if line.hasPrefix("culprit: ending process") { said = line }
    }
    #expect(said?.contains("event loop \"store\" on thread") == true)
    #expect(disk.thaw())
    #expect(service.end() == -SIGABRT)
  }

  /// A library's file system stops answering after it has been loaded, and what unwinding needs of it is not in memory.
  @Test(.needsFUSE)
  func aLibraryWhoseFileSystemIsSilentHoldsUpNobody() throws {
    let place = try TemporaryPlace()
    let library = try compiledLibrary(
      """
      #include <unistd.h>
      __attribute__((noinline)) void plugin_wait(int milliseconds) {
        volatile char room[64];
        room[0] = 1;
        usleep((unsigned)milliseconds * 1000);
        room[1] = 2;
      }
      """,
      name: "plugin",
      in: place.path,
      // The tables are on a page of their own, that only unwinding asks for.
      options: ["-O1", "-fomit-frame-pointer", "-fuse-ld=lld", "-Wl,-z,separate-code"]
    )
    let files = try SilentFileSystem(library, as: "plugin.so", in: place)
    let service = try ServiceProcess(besideThis: "held-up-process", ["plugin", files.file])
    try #require(service.line(within: Self.limit) == "ready")
    files.answer(false)
    service.tell("stall")
    #expect(service.fact("began", within: Self.limit) == "plugin")
    // The stall is reported while the file system is as silent as before.
    #expect(service.fact("duration", within: Self.limit) != nil)
    files.answer(true)
    service.tell("end")
    #expect(service.fact("stopped", within: Self.limit) == "true")
    #expect(service.end() == 0)
    withExtendedLifetime(files) {}
  }

  /// A service that closes every descriptor, also those of its watchdog, and opens files of its own under their numbers: whose a number
  /// is is found out without asking who answers for such a file.
  @Test(.needsFUSE)
  func foreignFilesUnderItsNumbersHoldUpNobody() throws {
    let place = try TemporaryPlace()
    let file = place.path + "/file"
    try Data("contents".utf8).write(to: URL(fileURLWithPath: file))
    let files = try SilentFileSystem(file, as: "file", in: place)
    let service = try ServiceProcess(besideThis: "held-up-process", ["descriptors", files.file])
    try #require(service.line(within: Self.limit) == "ready")
    files.answer(false)
    service.tell("stall")
    #expect(service.fact("began", within: Self.limit) == "numbers")
    #expect(service.fact("culprit", within: Self.limit) == "$s15held_up_process12sleepForLongSiyF")
    service.tell("end")
    #expect(service.fact("stopped", within: Self.limit) == "true")
    // The kernel asks when the service's own files are closed.
    files.answer(true)
    #expect(service.end() == 0)
    withExtendedLifetime(files) {}
  }

  /// A page of a stack that does not come holds up the sampler that reads it. Another one takes its place, and leaves that stack
  /// alone; the first one is a spare one when it has come back.
  @Test(.needsUserfaultfd) func aSamplerThatIsHeldUpIsReplaced() throws {
    let service = try ServiceProcess(besideThis: "held-up-process", ["page"])
    let began = service.fact("began", within: Self.limit)
    #expect(began == "above")
    let limitation = service.fact("limitation", within: Self.limit)
    #expect(limitation == "the kernel holds up 1 of the 2 threads that can take stacks")
    service.tell("end")
    let rest = service.rest()
    #expect(rest.contains("began=other"))
    #expect(rest.contains("culprit=$s15held_up_process12sleepForLongSiyF"))
    #expect(rest.contains("outcome=samplerStopped"))
    #expect(rest.contains("stopped=true"))
    #expect(service.end() == 0)
  }

  /// Where all of them are held up, stalls are declared and timed all the same, `stop` waits for none of them, and the next watchdog says
  /// why it takes no stacks.
  @Test(.needsUserfaultfd) func whereAllSamplersAreHeldUpTheRestGoesOn() throws {
    let service = try ServiceProcess(besideThis: "held-up-process", ["pages"])
    let rest = service.rest()
    let lines = rest.split(separator: "\n").map(String.init)
    let words = "stalls are noticed all the same"
    #expect(
      lines.filter { $0.hasPrefix("limitation=") } == [
        "limitation=no stacks are taken: the kernel holds up every thread that can, 2 in all; \(words)",
        "limitation=no stacks are taken: the threads of an earlier watchdog that take them have not ended; \(words)",
      ],
      "\(lines)"
    )
    for name in ["above 0", "above 1", "other", "later"] {
      #expect(lines.contains("began=\(name)"), "\(lines)")
      #expect(lines.contains("hang=\(name)"), "\(lines)")
    }
    #expect(lines.contains("first stopped=false in time=true"), "\(lines)")
    #expect(lines.contains("stopped=true"), "\(lines)")
    #expect(service.end() == 0)
  }

  /// The process goes on when its main thread has left, but the kernel finds it by its number no more.
  @Test func stacksAreTakenWhenTheMainThreadHasLeft() throws {
    let service = try ServiceProcess(besideThis: "held-up-process", ["leave"])
    let rest = service.rest()
    let culprits = rest.split(separator: "\n").filter { $0.hasPrefix("culprit=") }
    #expect(culprits == ["culprit=$s15held_up_process12sleepForLongSiyF", "culprit=$s15held_up_process7computeyyF"])
    #expect(rest.contains("outcome=captured"))
    #expect(!rest.contains("threads=0"))
    #expect(!rest.contains("limitation="))
    #expect(service.end() == 0)
  }

  /// The kernel ends a process when it finds no room for a signal.
  @Test func aThreadWithoutRoomForASignalGetsNone() throws {
    let service = try ServiceProcess(besideThis: "held-up-process", ["small"])
    let rest = service.rest()
    let sentence =
      "refused=stacks cannot be captured here: the calling thread's alternate stack is too small for a signal "
      + "(sigaltstack(2)); start the watchdog on another thread\n"
    #expect(rest.contains(sentence), "\(rest)")
    #expect(rest.contains("outcome=notSignalled"))
    #expect(rest.contains("stopped=true"))
    #expect(service.end() == 0)
  }

  /// A signal's frame does not fit, or its handler finds no thread pointer: unwatched the threads live.
  @Test func survivesSignalsWithLittleStack() throws {
    let service = try ServiceProcess(besideThis: "held-up-process", ["little"])
    let rest = service.rest()
    #expect(rest.contains("little error=0") && rest.contains("bare error=0"), "\(rest)")
    #expect(rest.contains("outcome=captured"), "\(rest)")
    #expect(rest.contains("culprit=spend"), "\(rest)")
    #expect(rest.contains("not signalled=2"), "\(rest)")
    #expect(rest.contains("stopped=true"), "\(rest)")
    #expect(service.end() == 0)
  }

  /// Nothing is mapped where the red zone would be.
  @Test func aStackAtItsLowestPageIsRead() throws {
    let service = try ServiceProcess(besideThis: "held-up-process", ["edge"])
    let rest = service.rest()
    #expect(rest.contains("culprit=sleep_at_lowest_page"))
    #expect(!rest.contains("outcome=untouchable"))
    #expect(service.end() == 0)
  }
}

/// A mounted file system with one file, whose server may stop answering; it goes with this value.
private final class SilentFileSystem {
  /// The file on it.
  let file: String
  private let mount: String
  private let server: ServiceProcess

  /// Has `original` as `name`.
  init(_ original: String, as name: String, in place: TemporaryPlace) throws {
    mount = place.path + "/mounted"
    file = mount + "/" + name
    try FileManager.default.createDirectory(atPath: mount, withIntermediateDirectories: false)
    server = try ServiceProcess(besideThis: "held-up-process", ["serve", original, name, mount])
    try #require(server.line(within: HeldUpTests.limit) == "mounted")
  }

  deinit {
    kill(server.process, SIGKILL)
    server.end()
    umount2(mount, Int32(MNT_DETACH))
  }

  /// Whether it answers from now on.
  func answer(_ answers: Bool) { kill(server.process, answers ? SIGCONT : SIGSTOP) }
}

/// A directory that goes with this value.
final class TemporaryPlace {
  let path: String

  init() throws {
    path = NSTemporaryDirectory() + "culprit-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }
}

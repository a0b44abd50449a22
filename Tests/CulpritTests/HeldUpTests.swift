import FaultyDisks
import Foundation
import TestSupport
import Testing

/// Stalls during which the kernel blocks threads in page faults or at the address space's lock.
@Suite(.ownThread, .serialized) struct HeldUpTests {
  @TemporaryDirectory private var directory: String
  static let limit: Int32 = 60_000

  /// Starts the service, freezes `disk`, and makes a thread of the service access a file on the disk.
  private func stalled(_ disk: FaultyDisk, _ mode: String, _ arguments: String...) throws -> ServiceProcess {
    let service = try ServiceProcess(besideThis: "held-up-process", [mode, disk.path + "/file"] + arguments)
    for expected in ["byte=0", "hanging=rehearsal", "ready"] {
      try #require(service.line(within: Self.limit) == expected)
    }
    try disk.freeze()
    service.send("stall")
    return service
  }

  /// Runs the service to its end and returns the output.
  private func output(_ mode: String) throws -> String {
    let service = try ServiceProcess(besideThis: "held-up-process", [mode])
    defer { #expect(service.end() == 0) }
    return service.rest()
  }

  /// A thread waits in a page fault on a frozen disk; another thread waits for the address space's lock.
  /// The stall must be reported, although `process_vm_readv` would block.
  @Test(.enabled(if: FaultyDisk.obstacle == nil, "needs root, loop devices and mkfs.ext4"))
  func reportsStallInPageFault() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 8, seconds: 120)
    defer { disk.remove() }
    let systemd = try SystemdListener(directory + "/notify")
    defer { _ = disk.thaw() }
    let service = try stalled(disk, "frozen", systemd.name)
    // Hangs are detected from slots and clocks alone; handlers and samplers can be blocked.
    var lines: [String] = []
    while !lines.contains("hanging=store"), let line = service.line(within: Self.limit) { lines.append(line) }
    #expect(lines.contains("hanging=store"), "\(lines)")
    #expect(systemd.heard().contains("WATCHDOG=1"))
    // Seven pings are due; one can already have been sent.
    usleep(1_500_000)
    #expect(systemd.heard().count { $0 == "WATCHDOG=1" } <= 1)
    service.send("limitations")
    // A response that needs the lock comes only after the thaw.
    if let line = service.line(within: 1000) { lines.append(line) }
    #expect(disk.thaw())
    var durations: [Int] = []
    while durations.count < 2, let line = service.line(within: Self.limit) {
      lines.append(line)
      if line.hasPrefix("duration=") { durations.append(Int(line.dropFirst(9)) ?? 0) }
    }
    #expect(durations.count == 2 && durations.allSatisfy { $0 >= 2 }, "\(lines)")
    // Threads with resident pages must be sampled, unless the kernel blocks the samplers.
    let midway = lines.first { $0.hasPrefix("bystander midway=") }
    let areSamplersBlocked = lines.contains { $0.hasPrefix("limitations=") && $0.contains("the kernel blocks ") }
    #expect(midway != nil && (midway != "bystander midway=0" || areSamplersBlocked), "\(lines)")
    #expect(lines.contains("began=store"))
    #expect(lines.contains("hang=store"))
    #expect(lines.contains("culprit=store_into_frozen_file") || lines.contains("culprit=nobody"))
    service.send("end")
    let rest = service.rest()
    #expect(rest.contains("stopped=true"))
    #expect(service.end() == 0)
  }

  /// SIGABRT must end the process after the thaw.
  @Test(.enabled(if: FaultyDisk.obstacle == nil, "needs root, loop devices and mkfs.ext4"))
  func terminatesProcessStuckInPageFault() throws {
    let disk = try FaultyDisk(.ext4, mebibytes: 8, seconds: 120)
    defer { disk.remove() }
    defer { _ = disk.thaw() }
    let service = try stalled(disk, "terminate")
    var message: String?
    while message == nil, let line = service.line(within: Self.limit) {
      if line.hasPrefix("culprit: ending process") { message = line }
    }
    #expect(message?.contains("event loop \"store\" on thread") == true)
    #expect(disk.thaw())
    #expect(service.end() == -SIGABRT)
  }

  /// Sampling must not wait for an unresponsive file system with a library's unwind tables.
  @Test(.needsFUSE)
  func survivesUnresponsiveLibraryFileSystem() throws {
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
      in: directory,
      // Puts the unwind tables on a separate page.
      options: ["-O1", "-fomit-frame-pointer", "-fuse-ld=lld", "-Wl,-z,separate-code"]
    )
    let files = try SilentFileSystem(library, as: "plugin.so", in: directory)
    let service = try ServiceProcess(besideThis: "held-up-process", ["plugin", files.file])
    try #require(service.line(within: Self.limit) == "ready")
    files.answer(false)
    service.send("stall")
    #expect(service.fact("began", within: Self.limit) == "plugin")
    #expect(service.fact("duration", within: Self.limit) != nil)
    files.answer(true)
    service.send("end")
    #expect(service.fact("stopped", within: Self.limit) == "true")
    #expect(service.end() == 0)
    withExtendedLifetime(files) {}
  }

  /// The service replaces the watchdog's descriptors with descriptors of an unresponsive file system.
  /// The watchdog must notice without a request to the file system.
  @Test(.needsFUSE)
  func survivesReusedDescriptorNumbers() throws {
    let file = directory + "/file"
    try Data("contents".utf8).write(to: URL(fileURLWithPath: file))
    let files = try SilentFileSystem(file, as: "file", in: directory)
    let service = try ServiceProcess(besideThis: "held-up-process", ["descriptors", files.file])
    try #require(service.line(within: Self.limit) == "ready")
    files.answer(false)
    service.send("stall")
    #expect(service.fact("began", within: Self.limit) == "numbers")
    #expect(service.fact("culprit", within: Self.limit) == "$s15held_up_process12sleepForLongSiyF")
    service.send("end")
    #expect(service.fact("stopped", within: Self.limit) == "true")
    // Closing the service's files needs a response of the file system.
    files.answer(true)
    #expect(service.end() == 0)
    withExtendedLifetime(files) {}
  }

  /// The next sampler must skip the blocking stack. The first sampler becomes a spare after its return.
  @Test(.needsUserfaultfd) func replacesBlockedSampler() throws {
    let service = try ServiceProcess(besideThis: "held-up-process", ["page"])
    let began = service.fact("began", within: Self.limit)
    #expect(began == "above")
    let limitation = service.fact("limitation", within: Self.limit)
    #expect(limitation == "the kernel blocks 1 of 2 samplers")
    service.send("end")
    let rest = service.rest()
    #expect(rest.contains("began=other"))
    #expect(rest.contains("culprit=$s15held_up_process12sleepForLongSiyF"))
    #expect(rest.contains("outcome=samplerStopped"))
    #expect(rest.contains("stopped=true"))
    #expect(service.end() == 0)
  }

  @Test(.needsUserfaultfd) func reportsStallsWithAllSamplersBlocked() throws {
    let rest = try output("pages")
    let lines = rest.split(separator: "\n").map(String.init)
    let words = "stalls are still detected"
    #expect(
      lines.filter { $0.hasPrefix("limitation=") } == [
        "limitation=no stacks are captured: the kernel blocks all 2 samplers; \(words)",
        "limitation=no stacks are captured: the samplers of an earlier watchdog have not ended; \(words)",
      ],
      "\(lines)"
    )
    for name in ["above 0", "above 1", "other", "later"] {
      #expect(lines.contains("began=\(name)"), "\(lines)")
      #expect(lines.contains("hang=\(name)"), "\(lines)")
    }
    #expect(lines.contains("first stopped=false in time=true"), "\(lines)")
    #expect(lines.contains("stopped=true"), "\(lines)")
  }

  /// After the main thread's exit, the kernel does not find the process by its id.
  @Test func samplesAfterMainThreadExit() throws {
    let rest = try output("leave")
    let culprits = rest.split(separator: "\n").filter { $0.hasPrefix("culprit=") }
    #expect(culprits == ["culprit=$s15held_up_process12sleepForLongSiyF", "culprit=$s15held_up_process7computeyyF"])
    #expect(rest.contains("outcome=captured"))
    #expect(!rest.contains("threads=0"))
    #expect(!rest.contains("limitation="))
  }

  /// A thread without space for a signal frame must get no signal: the kernel would end the process.
  @Test func sendsNoSignalWithoutStackRoom() throws {
    let rest = try output("small")
    let sentence =
      "refused=stacks cannot be captured here: the calling thread's alternate stack is too small for a signal "
      + "(sigaltstack(2)); start the watchdog on another thread\n"
    #expect(rest.contains(sentence), "\(rest)")
    #expect(rest.contains("outcome=notSignalled"))
    #expect(rest.contains("stopped=true"))
  }

  /// Threads without space for a signal frame, or without a thread pointer, must survive.
  @Test func survivesSignalsWithLittleStack() throws {
    let rest = try output("little")
    #expect(rest.contains("little error=0") && rest.contains("bare error=0"), "\(rest)")
    #expect(rest.contains("outcome=captured"), "\(rest)")
    #expect(rest.contains("culprit=spend"), "\(rest)")
    #expect(rest.contains("not signalled=2"), "\(rest)")
    #expect(rest.contains("stopped=true"), "\(rest)")
  }

  /// A stack must be sampled although its red zone is not mapped.
  @Test func samplesStackOnLowestPage() throws {
    let rest = try output("edge")
    #expect(rest.contains("culprit=sleep_at_lowest_page"))
    #expect(!rest.contains("outcome=untouchable"))
  }
}

/// A mounted file system with one file and a server that can be stopped. Unmounted in `deinit`.
private final class SilentFileSystem {
  let file: String
  private let mount: String
  private let server: ServiceProcess

  init(_ original: String, as name: String, in directory: String) throws {
    mount = directory + "/mounted"
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

  func answer(_ answers: Bool) { kill(server.process, answers ? SIGCONT : SIGSTOP) }
}

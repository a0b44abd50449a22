import Culprit
import CulpritBlame
import CulpritStallRecord
import Dispatch
import Glibc
import KernelWaits
import Programs
import Synchronization

// A service whose threads are blocked in the kernel by a silent file system or a missing page.
//
//   held-up-process serve FILE NAME PLACE   mounts at PLACE a file system that has FILE as NAME, and serves it
//   held-up-process frozen FILE SOCKET      stores into FILE on a frozen file system while another thread waits for the
//                                           lock of the address space; pings systemd at SOCKET
//   held-up-process terminate FILE          as `frozen`, with a termination limit; prints the watchdog's messages, too
//   held-up-process plugin FILE             calls into the library FILE while its file system does not answer
//   held-up-process descriptors FILE        closes every descriptor, opens FILE under their numbers, and stalls while
//                                           the file system of FILE does not answer
//   held-up-process page                    stalls above a missing page of its stack, and in another loop
//   held-up-process pages                   stalls above two missing pages, which block every sampler, and starts
//                                           another watchdog
//   held-up-process leave                   stalls after the main thread has ended
//   held-up-process small                   computes on a thread with a signal stack that is too small
//   held-up-process little                  computes with little stack left, on watched and unwatched threads, and
//                                           without a thread pointer
//   held-up-process edge                    stalls at the lowest page of the main thread's stack
//
// Prints "ready", waits for a line, stalls, prints the calls of the watchdog's handlers, and ends after another line.

let arguments = CommandLine.arguments

func fail(_ text: String) -> Never {
  say("failed: \(text)")
  exit(1)
}

func printEvents(_ watchdog: Watchdog) {
  watchdog.onStallBegan { say("began=\($0.source.name)") }
  watchdog.onHang { say("hang=\($0.source.name)") }
  watchdog.onStall { report in
    // Ignores reports of a running stall, made before systemd ends the service.
    guard report.hasEnded else { return }
    say("culprit=\(report.culprit?.function.symbol ?? report.culprit?.function.name ?? "nobody")")
    say("captured=\(report.raw.stall.samples.count { $0.outcome == .captured })")
    for outcome in Set(report.raw.stall.samples.map(\.outcome)) { say("outcome=\(outcome)") }
    let middle = report.raw.stall.samples.filter { $0.age > .milliseconds(500) && $0.age < .seconds(2) }
    say("\(report.source.name) midway=\(middle.count { $0.outcome == .captured })")
    say("frames=\(report.raw.recording.stacks.map(\.frames.count).max() ?? 0)")
    say("mentions stallInPlugin=\(report.text(width: 200).contains("stallInPlugin"))")
    say("duration=\(report.duration.components.seconds)")
  }
}

func waitForLine() { if readLine() == nil { exit(0) } }

struct Place: @unchecked Sendable {
  // SAFETY: the mapping is never unmapped.
  let bytes: UnsafeMutablePointer<CChar>
}

/// Waits until `watchdog` lists `source` as hanging, and prints its name.
func waitForHang(_ watchdog: Watchdog, _ source: String) {
  while !watchdog.status.hanging.contains(where: { $0.source.name == source }) { usleep(10_000) }
  say("hanging=\(source)")
}

/// Hangs until the status of a separate watchdog lists the hang.
func hangOnce() throws {
  var configuration = Watchdog.Configuration(threshold: .milliseconds(20))
  configuration.sampling.hangThreshold = .milliseconds(40)
  configuration.lifecycle.notifiesSystemd = false
  let watchdog = try Watchdog(configuration)
  watchdog.onStall { _ in }
  let loop = try watchdog.watchLoop(named: "rehearsal")
  loop.withTurn { waitForHang(watchdog, "rehearsal") }
  watchdog.stop(patience: .seconds(60))
}

func stallOnFrozenFile(_ path: String, terminateAfter: Duration? = nil, systemd: String? = nil) throws {
  if let systemd {
    setenv("NOTIFY_SOCKET", systemd, 1)
    setenv("WATCHDOG_USEC", "400000", 1)
  }
  let file = open(path, O_RDWR | O_CREAT, 0o600)
  guard file >= 0, ftruncate(file, 4 * 4096) == 0,
    let mapped = mmap(nil, 4 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0), mapped != MAP_FAILED
  else { fail("cannot map \(path)") }
  let place = Place(bytes: mapped.assumingMemoryBound(to: CChar.self))
  // Makes the page resident and clean, so the next store needs the file system.
  say("byte=\(place.bytes[0])")
  var configuration = Watchdog.Configuration(threshold: .milliseconds(300))
  configuration.sampling.hangThreshold = .milliseconds(900)
  configuration.lifecycle.terminateAfter = terminateAfter
  configuration.lifecycle.notifiesSystemd = systemd != nil
  // Grows the heap and finds a first hang, because the main thread must not need the address space's lock later.
  free(malloc(100 << 10))
  try hangOnce()
  let watchdog = try Watchdog(configuration)
  printEvents(watchdog)
  let loop = try watchdog.watchLoop(named: "store")
  // Without a bystander, a termination concerns the source "store".
  let bystander = terminateAfter == nil ? try watchdog.watchLoop(named: "bystander") : nil
  var ends: [Int32] = [0, 0]
  guard pipe(&ends) == 0 else { fail("pipe") }
  let (output, input) = (ends[0], ends[1])
  say("ready")
  waitForLine()
  let isOver = Atomic<Bool>(false)
  withExtendedLifetime(isOver) {
    startThread {
      bystander?.begin()
      waitForByte(output)
      bystander?.end()
    }
    startThread {
      loop.begin()
      store_into_frozen_file(place.bytes)
      loop.end()
      _ = write(input, "x", 1)
      say("stored")
    }
    startThread {
      usleep(50_000)
      // Waits for the address space's lock, which the faulting thread holds. Later users of the lock wait for this
      // thread.
      mprotect(place.bytes + 2 * 4096, 4096, PROT_READ)
      say("protected")
    }
  }
  waitForHang(watchdog, "store")
  waitForLine()
  say("limitations=\(watchdog.status.limitations.map(\.description))")
  waitForLine()
  say("stopped=\(watchdog.stop(patience: .seconds(60)))")
}

@inline(never) func waitForByte(_ descriptor: Int32) {
  var byte: UInt8 = 0
  _ = read(descriptor, &byte, 1)
}

func stallInPlugin(_ path: String) throws {
  guard let library = dlopen(path, RTLD_NOW | RTLD_LOCAL), let symbol = dlsym(library, "plugin_wait") else {
    fail("cannot load \(path): \(dlerror().map { String(cString: $0) } ?? "")")
  }
  typealias Wait = @convention(c) (Int32) -> Void
  let wait = unsafeBitCast(symbol, to: Wait.self)
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(300)))
  printEvents(watchdog)
  // Makes the library's code resident.
  wait(1)
  say("ready")
  waitForLine()
  let loop = try watchdog.watchLoop(named: "plugin")
  loop.withTurn { wait(1500) }
  waitForLine()
  for limitation in watchdog.status.limitations { say("limitation=\(limitation)") }
  say("stopped=\(watchdog.stop(patience: .seconds(60)))")
}

func stallWithForeignDescriptors(_ path: String) throws {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(300)))
  printEvents(watchdog)
  let loop = try watchdog.watchLoop(named: "numbers")
  // Daemons and services that start programs close their descriptors like this.
  for number in STDERR_FILENO + 1..<64 { close(number) }
  for _ in 0..<64 where open(path, O_RDONLY | O_CLOEXEC) < 0 { fail("cannot open \(path)") }
  say("ready")
  waitForLine()
  loop.withTurn { _ = sleepForLong() }
  waitForLine()
  say("stopped=\(watchdog.stop(patience: .seconds(60)))")
}

nonisolated(unsafe) var markedLoops: [WatchedLoop] = []

/// Starts `count` threads that stall in turns of loops, above missing stack pages. Each thread continues when a byte is
/// written to the returned pipe.
func startAbovePages(_ count: Int32) -> Int32 {
  var ends: [Int32] = [0, 0]
  guard pipe(&ends) == 0 else { fail("pipe") }
  let error = unanswered_pages_start(count, ends[0]) { place, begins in
    let loop = markedLoops[Int(place)]
    if begins {
      loop.begin()
    } else {
      loop.end()
      endedTurns.add(1, ordering: .relaxed)
    }
  }
  guard error == 0 else { fail("userfaultfd: \(String(cString: strerror(error)))") }
  return ends[1]
}

let endedTurns = Atomic<Int>(0)

func stallAbovePage() throws {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(300)))
  printEvents(watchdog)
  let other = try watchdog.watchLoop(named: "other")
  markedLoops = [try watchdog.watchLoop(named: "above")]
  let end = startAbovePages(1)
  while watchdog.status.limitations.isEmpty { usleep(10_000) }
  for limitation in watchdog.status.limitations { say("limitation=\(limitation)") }
  // The replacement for the blocked sampler samples this thread.
  other.withTurn { _ = sleepForLong() }
  unanswered_pages_answer()
  while !watchdog.status.limitations.isEmpty { usleep(10_000) }
  _ = write(end, "x", 1)
  while endedTurns.load(ordering: .relaxed) == 0 { usleep(10_000) }
  waitForLine()
  say("stopped=\(watchdog.stop(patience: .seconds(60)))")
}

/// Blocks all samplers. Stalls must still be detected, a stop must not wait, and the next watchdog must report why it
/// has no stacks.
func stallAbovePages() throws {
  var configuration = Watchdog.Configuration(threshold: .milliseconds(300))
  configuration.sampling.hangThreshold = .milliseconds(900)
  let first = try Watchdog(configuration)
  printEvents(first)
  let other = try first.watchLoop(named: "other")
  markedLoops = try (0..<2).map { try first.watchLoop(named: "above \($0)") }
  let end = startAbovePages(2)
  while first.status.limitations.first?.description.contains("blocks all") != true { usleep(10_000) }
  for limitation in first.status.limitations { say("limitation=\(limitation)") }
  other.withTurn { _ = sleepForLong() }
  let clock = ContinuousClock()
  var isStopped = true
  let time = clock.measure { isStopped = first.stop(patience: .seconds(300)) }
  say("first stopped=\(isStopped) in time=\(time < .seconds(60))")
  let second = try Watchdog(configuration)
  printEvents(second)
  for limitation in second.status.limitations { say("limitation=\(limitation)") }
  let later = try second.watchLoop(named: "later")
  later.withTurn { _ = sleepForLong() }
  unanswered_pages_answer()
  _ = write(end, "xx", 2)
  say("stopped=\(second.stop(patience: .seconds(60)))")
}

@inline(never) func sleepForLong() -> Int { Int(usleep(1_500_000)) }

func stallWithoutMainThread() throws {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(300)))
  printEvents(watchdog)
  let loop = try watchdog.watchLoop(named: "left")
  startThread {
    while true {
      let text = readFile("/proc/self/stat")
      if text.split(separator: ")").last?.hasPrefix(" Z") ?? false { break }
      usleep(10_000)
    }
    loop.withTurn { _ = sleepForLong() }
    loop.withTurn { compute() }
    let threads = try? watchdog.captureThreads()
    say("threads=\(threads?.groups.reduce(0) { $0 + ($1.noStack == nil ? $1.threads.count : 0) } ?? 0)")
    for limitation in watchdog.status.limitations { say("limitation=\(limitation)") }
    say("stopped=\(watchdog.stop(patience: .seconds(60)))")
    exit(0)
  }
  pthread_exit(nil)
}

@inline(never) func compute() {
  let end = ContinuousClock.now + .milliseconds(1500)
  var value: UInt64 = 1
  while ContinuousClock.now < end { for _ in 0..<1000 { value = value &* 6_364_136_223_846_793_005 &+ 1 } }
  sink.store(value, ordering: .relaxed)
}

let sink = Atomic<UInt64>(0)

func stallAtEdge() throws {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(300)))
  printEvents(watchdog)
  let loop = try watchdog.watchLoop(named: "edge")
  loop.withTurn { sleep_at_lowest_page(1500) }
  say("stopped=\(watchdog.stop(patience: .seconds(60)))")
}

func stallWithSmallSignalStack() throws {
  let isTried = DispatchSemaphore(value: 0)
  startThread {
    use_small_signal_stack()
    do { _ = try Watchdog(Watchdog.Configuration()) } catch { say("refused=\(error)") }
    isTried.signal()
  }
  isTried.wait()
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(300)))
  printEvents(watchdog)
  let loop = try watchdog.watchLoop(named: "small")
  startThread {
    use_small_signal_stack()
    loop.withTurn { compute() }
    say("stopped=\(watchdog.stop(patience: .seconds(60)))")
    exit(0)
  }
  while true { pause() }
}

nonisolated(unsafe) var littleLoop: WatchedLoop?

/// Computes on stacks without space for a signal frame, and on a thread without a thread pointer, which a handler
/// needs.
func computeWithLittleStack() throws {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(300)))
  printEvents(watchdog)
  littleLoop = try watchdog.watchLoop(named: "little")
  let error = compute_with_little_stack(1500) { begins in
    if begins { littleLoop?.begin() } else { littleLoop?.end() }
  }
  say("little error=\(error)")
  startThread { _ = compute_with_little_stack(30_000, nil) }
  say("bare error=\(compute_on_bare_thread(30_000))")
  // The two unwatched threads compute until one capture reports both.
  var computing = 0
  while computing < 2 {
    let groups = try watchdog.captureThreads().groups.filter { $0.noStack?.code == "notSignalled" }
    computing = groups.reduce(0) { $0 + $1.threads.count }
  }
  say("not signalled=\(computing)")
  say("stopped=\(watchdog.stop(patience: .seconds(60)))")
}

switch (arguments.dropFirst().first, arguments.count) {
case ("serve", 5):
  let error = silent_file_system_serve(arguments[2], arguments[3], arguments[4]) { say("mounted") }
  if error < 0 { fail(String(cString: strerror(-error))) }
case ("frozen", 4): try stallOnFrozenFile(arguments[2], systemd: arguments[3])
case ("terminate", 3):
  dup2(STDOUT_FILENO, STDERR_FILENO)
  try stallOnFrozenFile(arguments[2], terminateAfter: .milliseconds(1200))
case ("plugin", 3): try stallInPlugin(arguments[2])
case ("descriptors", 3): try stallWithForeignDescriptors(arguments[2])
case ("page", 2): try stallAbovePage()
case ("pages", 2): try stallAbovePages()
case ("leave", 2): try stallWithoutMainThread()
case ("edge", 2): try stallAtEdge()
case ("little", 2): try computeWithLittleStack()
case ("small", 2): try stallWithSmallSignalStack()
default:
  fail(
    "usage: held-up-process serve FILE NAME PLACE | frozen FILE SOCKET | terminate FILE | plugin FILE | descriptors FILE | page | pages | leave "
      + "| edge | small | little"
  )
}

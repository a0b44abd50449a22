import Culprit
import CulpritStallRecord
import Glibc
import Programs
import Synchronization
import TestWorkloads

func quick(directory: String? = nil) -> Watchdog.Configuration {
  Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(100), directory: directory)
}

/// Becomes a daemon (daemon(3)) under a watchdog, closes inherited descriptors and starts another watchdog.
func becomeDaemon(_ arguments: [String]) throws {
  let directory = arguments[0]
  let inheritance = try Inheritance()
  guard let watchdog = inheritance.watchdog, let loop = inheritance.loop else { return }
  let busy = try BusyThreads(watchdog)
  loop.begin()
  if workload_become_daemon() != 0 { _exit(7) }
  withExtendedLifetime(busy) {}
  loop.end()
  closefrom(3)
  let files = OwnFiles(in: directory, upTo: 40)
  watchdog.stop(patience: .seconds(10))
  let own = try Watchdog(quick(directory: directory))
  let names = Names()
  own.onStall { report in
    names.add("\(report.source.name) \(report.culprit?.function.name ?? "nobody: \(report)")")
  }
  let ownLoop = try own.watchLoop(named: "daemon")
  ownLoop.withTurn { stall(.seconds(2)) }
  own.stop(patience: .seconds(60))
  let report = "\(names.all)\n\(files.harmed())\n"
  let place = open("\(directory)/daemon.new", O_WRONLY | O_CREAT, 0o600)
  _ = Array(report.utf8).withUnsafeBytes { write(place, $0.baseAddress, $0.count) }
  rename("\(directory)/daemon.new", "\(directory)/daemon")
}

final class Names: Sendable {
  private let names = Mutex<[String]>([])
  func add(_ name: String) { names.withLock { $0.append(name) } }
  var all: [String] { names.withLock { $0 } }
}

/// Starts programs by fork, vfork and posix_spawn while other threads begin and end work. Prints descriptors that a
/// program inherited.
func startPrograms(_ arguments: [String]) throws {
  let count = count(arguments)
  // Closes descriptors that the test left open.
  closefrom(3)
  let watchdog = try Watchdog(quick(directory: arguments[1]))
  let loop = try watchdog.watchLoop(named: "main")
  let busy = try BusyThreads(watchdog)
  let inherited = Names()
  for number in 0..<count {
    let way = ["fork", "vfork", "spawn"][number % 3]
    var ends: [Int32] = [0, 0]
    pipe(&ends)
    let output = dup(STDOUT_FILENO)
    _ = fcntl(output, F_SETFD, FD_CLOEXEC)
    _ = fcntl(ends[0], F_SETFD, FD_CLOEXEC)
    dup2(ends[1], STDOUT_FILENO)
    close(ends[1])
    let words = ["/bin/ls", "/proc/self/fd"]
    var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
    let child = loop.withTurn {
      watchdog.withSection("starting", threshold: .seconds(60)) { workload_start(way, "/bin/ls", &arguments) }
    }
    dup2(output, STDOUT_FILENO)
    close(output)
    var text: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 4096)
    while true {
      let got = read(ends[0], &piece, piece.count)
      guard got > 0 else { break }
      text += piece.prefix(got)
    }
    close(ends[0])
    var status: Int32 = 0
    waitpid(child, &status, 0)
    let numbers = String(decoding: text, as: UTF8.self).split(separator: "\n").compactMap { Int($0) }.sorted()
    // Descriptor 3 is the listing itself.
    if numbers != [0, 1, 2, 3] || status != 0 { inherited.add("\(way): \(numbers), status \(status)") }
  }
  busy.end()
  watchdog.stop(patience: .seconds(10))
  say("inherited=\(inherited.all)")
}

/// Forks and lists the child's descriptors. The child then closes all descriptors and opens its own files.
func lookAtDescriptorsInChild(_ arguments: [String]) throws {
  let directory = arguments[0]
  let before = Set(descriptors().keys)
  let watchdog = try Watchdog(quick(directory: "\(directory)/box"))
  let loop = try watchdog.watchLoop(named: "main")
  let reported = Names()
  watchdog.onStall { reported.add($0.source.name) }
  loop.withTurn { stall(.milliseconds(300)) }
  // The child must not inherit the files from which the report reads names.
  _ = waitUntil { !reported.all.isEmpty }
  loop.begin()
  stall(.milliseconds(400))
  let child = workload_plain_fork()
  if child == 0 {
    alarm(30)
    let more = descriptors().filter { !before.contains($0.key) }
    say("inherited=\(more.values.sorted())")
    closefrom(3)
    let files = OwnFiles(in: directory, upTo: 60)
    loop.end()
    for _ in 0..<100 { loop.withTurn {} }
    let own = try Watchdog(quick())
    let ownLoop = try own.watchLoop(named: "own")
    // New threads can reuse resources of the parent's threads.
    for _ in 0..<20 {
      let isOver = Witness()
      startThread {
        ownLoop.withTurn {}
        isOver.seen.add(1, ordering: .releasing)
      }
      if !waitUntil({ isOver.seen.load(ordering: .acquiring) == 1 }) { _exit(8) }
    }
    watchdog.stop(patience: .seconds(10))
    own.stop(patience: .seconds(10))
    say("harmed=\(files.harmed())")
    exit(0)
  }
  var ends = Ends()
  ends.wait(for: child)
  loop.end()
  watchdog.stop(patience: .seconds(10))
  ends.print()
}

/// Forks. A thread of the child gets the id of the parent's monitor thread. The child's watchdog must capture it.
func takeNumberOfThreadInChild() throws {
  let watchdog = try Watchdog(quick())
  // The monitor sets its name after its start.
  _ = waitUntil { !threads(named: "culprit-monitor").isEmpty }
  guard let number = threads(named: "culprit-monitor").first else { return say("seen=no monitor") }
  var ends: [Int32] = [0, 0]
  pipe(&ends)
  let child = workload_plain_fork()
  if child == 0 {
    alarm(60)
    close(ends[1])
    var byte: UInt8 = 0
    _ = read(ends[0], &byte, 1)
    guard let thread = workload_thread_with_id(number) else {
      say("seen=taken")
      _exit(0)
    }
    let own = try Watchdog(quick())
    let seen = try own.captureThreads(timeout: .seconds(30)).groups.flatMap(\.threads).map(\.id)
    say("seen=\(seen.contains(number))")
    say("own=\(threads(named: "culprit-monitor").contains(where: seen.contains))")
    own.stop(patience: .seconds(10))
    workload_thread_stop(thread)
    exit(0)
  }
  watchdog.stop(patience: .seconds(10))
  _ = waitUntil { access("/proc/self/task/\(number)", F_OK) != 0 }
  close(ends[1])
  var result = Ends()
  result.wait(for: child)
  result.print()
}

/// Closes every descriptor under a watchdog, opens its own files under their numbers, and stalls.
func closeAll(_ arguments: [String]) throws {
  let directory = arguments[0]
  let box = "\(directory)/box"
  var configuration = quick(directory: box)
  configuration.lifecycle.terminateAfter = .seconds(60)
  configuration.lifecycle.notifiesSystemd = true
  let watchdog = try Watchdog(configuration)
  let names = Names()
  watchdog.onStall { report in names.add("\(report.source.name) \(report.culprit?.function.name ?? "nobody")") }
  let loop = try watchdog.watchLoop(named: "main")
  loop.withTurn { stall(.milliseconds(1500)) }
  // Closes the descriptors during a stall, whose file is open.
  loop.begin()
  stall(.milliseconds(1500))
  closefrom(3)
  let files = OwnFiles(in: directory, upTo: 100)
  stall(.milliseconds(1500))
  loop.end()
  for _ in 0..<3 { loop.withTurn { stall(.milliseconds(1500)) } }
  say("reported=\(waitUntil { names.all.count >= 5 })")
  let status = watchdog.status
  say("problems=\(status.problems)")
  say("systemd=\(status.systemd.map { "\($0.pings > 0) \($0.problem ?? "no problem")" } ?? "none")")
  say("harmed=\(files.harmed())")
  watchdog.stop(patience: .seconds(10))
  say("stalls=\(names.all)")
  say("harmed=\(files.harmed())")
  if arguments.contains("abort") { abort() }
}

/// Repeatedly closes all descriptors during a sampled stall and opens its own files.
func closeInStalls(_ arguments: [String]) throws {
  let directory = arguments[0]
  let watchdog = try Watchdog(.init(threshold: .milliseconds(100), interval: .milliseconds(10)))
  let loop = try watchdog.watchLoop(named: "main")
  var harmed: [String] = []
  var rounds = 0
  for _ in 0..<3 {
    loop.begin()
    stall(.milliseconds(150))
    for _ in 0..<100 {
      closefrom(3)
      let files = OwnFiles(in: directory, upTo: 16)
      usleep(1000)
      harmed += files.harmed()
      rounds += 1
    }
    loop.end()
  }
  watchdog.stop(patience: .seconds(10))
  say("rounds=\(rounds)")
  say("harmed=\(harmed)")
}

/// Closes all descriptors while the watchdog reads a directory with many files, and opens its own files.
func closeAtStart(_ arguments: [String]) throws {
  let directory = arguments[0]
  let box = "\(directory)/box"
  mkdir(box, 0o700)
  for number in 0..<1000 {
    let path = "\(box)/culprit-20261101T000000.000Z-4242-\(number + 1).stall"
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0o600))
  }
  let watchdog = try Watchdog(quick(directory: box))
  var harmed: [String] = []
  // Reading the directory takes some ten milliseconds. Meanwhile the service reuses the descriptors.
  for round in 0..<40 {
    closefrom(3)
    let files = OwnFiles(in: directory, upTo: 16)
    usleep(UInt32(500 + round * 50))
    harmed += files.harmed()
  }
  say("harmed=\(harmed)")
  watchdog.stop(patience: .seconds(10))
}

/// Starts a watchdog without standard streams. Prints which of the descriptors 0 to 2 the watchdog uses until a stall
/// is saved.
func startWithoutStreams(_ arguments: [String]) throws {
  let out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 100)
  for stream in [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO] { close(stream) }
  let watchdog = try Watchdog(quick(directory: arguments.first))
  watchdog.onStall { _ in }
  let loop = try watchdog.watchLoop(named: "main")
  var taken: Set<Int32> = []
  loop.withTurn {
    for _ in 0..<8 {
      stall(.milliseconds(50))
      // Another thread can open a descriptor for a moment. Only lasting descriptors count.
      let now = [STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO].filter { fcntl($0, F_GETFD) >= 0 }
      usleep(20_000)
      taken.formUnion(now.filter { fcntl($0, F_GETFD) >= 0 })
    }
  }
  watchdog.stop(patience: .seconds(10))
  dup2(out, STDOUT_FILENO)
  say("taken=\(taken.sorted())")
}

/// Accepts SIGPROF by sigtimedwait(2), as other services accept SIGUSR1.
func readProfilingSignals() throws {
  var profiling = sigset_t()
  sigemptyset(&profiling)
  sigaddset(&profiling, SIGPROF)
  pthread_sigmask(SIG_BLOCK, &profiling, nil)
  let watchdog = try Watchdog(quick())
  watchdog.onStall { _ in }
  var read = 0
  for _ in 0..<20 {
    kill(getpid(), SIGPROF)
    // A busy service does not accept the signal at once.
    usleep(5000)
    var patience = timespec(tv_sec: 0, tv_nsec: 200_000_000)
    if sigtimedwait(&profiling, nil, &patience) == SIGPROF { read += 1 }
  }
  say("read=\(read)")
  watchdog.stop(patience: .seconds(10))
}

func countThreadDescriptors() throws {
  let watchdog = try Watchdog(quick())
  let loop = try watchdog.watchLoop(named: "main")
  loop.withTurn { stall(.milliseconds(300)) }
  let before = descriptors().count
  let marked = Atomic<Int>(0)
  try withExtendedLifetime(Witness()) { witness in
    for number in 0..<200 {
      let own = try watchdog.watchLoop(named: "thread \(number)")
      startThread {
        own.withTurn {}
        witness.seen.add(1, ordering: .releasing)
        while true { sleep(100) }
      }
    }
    _ = waitUntil { witness.seen.load(ordering: .acquiring) == 200 }
    marked.store(witness.seen.load(ordering: .relaxed), ordering: .relaxed)
  }
  say("marked=\(marked.load(ordering: .relaxed))")
  say("more=\(descriptors().count - before)")
}

/// Ends a section on another thread, while the section is exempt. The next owner of the section's slot must be watched.
func exemptNobodyElse() throws {
  let watchdog = try Watchdog(quick())
  let names = Names()
  watchdog.onStall { report in
    names.add("\(report.source.name) \(report.raw.stall.samples.map(\.label).filter { !$0.isEmpty }.first ?? "-")")
  }
  let timer = watchdog.beginSection("left", threshold: .seconds(60))
  let isInvalid = Witness()
  let loop = try timer.withExemption {
    startThread {
      timer.end()
      isInvalid.seen.add(1, ordering: .releasing)
    }
    _ = waitUntil { isInvalid.seen.load(ordering: .acquiring) == 1 }
    // The slot that was returned last is reused first.
    return try watchdog.watchLoop(named: "after")
  }
  loop.label("own")
  timer.label("foreign")
  loop.withTurn { stall(.milliseconds(800)) }
  say("reported=\(waitUntil { !names.all.isEmpty })")
  let second = watchdog.beginSection("left", threshold: .seconds(60))
  second.end()
  let other = try watchdog.watchLoop(named: "then")
  other.label("own")
  second.label("foreign")
  second.withExemption { other.withTurn { stall(.milliseconds(800)) } }
  say("reported=\(waitUntil { names.all.count >= 2 })")
  // A late `launched()` must not end work of the next watchdog.
  watchdog.stop(patience: .seconds(10))
  var configuration = quick()
  configuration.lifecycle.launchThreshold = .seconds(60)
  let launching = try Watchdog(configuration)
  launching.onStall { names.add("\($0.source.name) -") }
  launching.stop(patience: .seconds(10))
  let next = try Watchdog(quick())
  next.onStall { names.add("\($0.source.name) -") }
  let slots = try (0..<3).map { try next.watchLoop(named: "next \($0)") }
  for slot in slots { slot.begin() }
  launching.launched()
  stall(.milliseconds(800))
  for slot in slots { slot.end() }
  say("reported=\(waitUntil { names.all.count >= 5 })")
  next.stop(patience: .seconds(10))
  say("stalls=\(names.all.sorted())")
}

/// Stops watchdogs whose loops are stuck, and starts others. The new watchdogs must send pings and request no
/// termination.
func restart(_ count: Int) throws {
  let requested = Names()
  let withheld = Names()
  var pinged = 0
  for number in 0..<count {
    let first = try Watchdog(quick())
    first.onStall { _ in }
    let loops = try (0..<50).map { try first.watchLoop(named: "first \($0)") }
    for loop in loops { loop.begin() }
    let began = Witness()
    first.onStallBegan { _ in began.seen.add(1, ordering: .relaxed) }
    _ = waitUntil { began.seen.load(ordering: .relaxed) >= 50 }
    first.stop(patience: .seconds(10))
    var configuration = quick()
    configuration.lifecycle.terminateAfter = .milliseconds(200)
    configuration.lifecycle.notifiesSystemd = true
    let second = try Watchdog(configuration)
    second.onTerminate { termination in
      requested.add("\(number): \(termination.source.name)")
      return .veto
    }
    usleep(20_000)
    // Pings start at once, in spite of the earlier watchdog's stalls.
    if waitUntil({ second.status.systemd.map { $0.pings > 0 } ?? false }) { pinged += 1 }
    if let state = second.status.systemd, state.hangs > 0 { withheld.add("\(number)") }
    second.stop(patience: .seconds(10))
    for loop in loops { loop.end() }
  }
  say("requested=\(requested.all)")
  say("withheld=\(withheld.all)")
  say("pinged=\(pinged)")
}

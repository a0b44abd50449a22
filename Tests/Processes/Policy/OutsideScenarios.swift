import Culprit
import Dispatch
import Glibc
import Programs
import Synchronization

/// A name with escape sequences, control characters, line ends and changes of text direction.
private let nasty = "n\u{1B}[2J\u{7F}\u{9B}\u{2028}\u{2029}\u{202E}\u{2066}\u{200F}\r\nINJECTED"

private let work = Atomic<UInt64>(0)

/// Computes for at least the given wall time and half as much CPU time: only a running thread handles the watchdog's
/// signals.
@inline(never)
func computeInTheWay(_ milliseconds: Int) {
  let end = ContinuousClock.now + .milliseconds(milliseconds)
  var used = timespec()
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used)
  let enough = used.tv_sec * 1_000_000_000 + used.tv_nsec + milliseconds * 500_000
  // The system call is not in a helper function: samples often hit a returning call, and the helper would become the
  // culprit.
  while ContinuousClock.now < end || used.tv_sec * 1_000_000_000 + used.tv_nsec < enough {
    for _ in 0..<1000 { work.wrappingAdd(1, ordering: .relaxed) }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used)
  }
}

@Sendable func stallOnce(_ arguments: [String]) throws {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(200), interval: .milliseconds(50)))
  let isReported = Atomic<Bool>(false)
  watchdog.onStall { report in
    say("report=\(report.culprit?.function.name ?? "nobody")")
    isReported.store(true, ordering: .releasing)
  }
  for problem in watchdog.status.problems { say("problem=\(problem)") }
  for limitation in watchdog.status.limitations { say("limitation=\(limitation.code)") }
  let queue = DispatchQueue(label: "work")
  watchdog.withSection("work", threshold: .milliseconds(200)) { queue.sync { computeInTheWay(600) } }
  if arguments.first == "wait" { while !isReported.load(ordering: .acquiring) { usleep(10_000) } }
  watchdog.stop(patience: .seconds(10))
  say("stopped=true")
}

/// Returns the calling thread's count of minor page faults.
private func ownPages() -> Int {
  var used = rusage()
  // RUSAGE_THREAD, which Glibc declares only with _GNU_SOURCE.
  getrusage(1, &used)
  return used.ru_minflt
}

/// Stalls with every setting at its maximum, and uses extreme durations: `stall-at-limits DIRECTORY`.
@Sendable func stallAtLimits(_ arguments: [String]) throws {
  let (longest, shortest) = (Duration.seconds(Int64.max), Duration.seconds(Int64.min))
  var configuration = Watchdog.Configuration(interval: .milliseconds(50), directory: arguments.first)
  configuration.reporting.symbolBytesMax = .max
  configuration.reporting.width = .max
  configuration.reporting.perMinute = .max
  configuration.reporting.perCulprit = .max
  configuration.storage.bytesMax = .max
  configuration.storage.filesMax = .max
  configuration.storage.ageMax = longest
  configuration.activities.countMax = .max
  let watchdog = try Watchdog(configuration)
  let isReported = Atomic<Bool>(false)
  watchdog.onStall { report in
    // The section "short" is reported if its thread is preempted.
    guard report.source.name == "work" else { return }
    say("report=\(report.culprit?.function.name ?? "nobody")")
    say("length=\("\(report)".count > 100)")
    isReported.store(true, ordering: .releasing)
  }
  let activity = try watchdog.beginActivity("long", threshold: longest) {}
  watchdog.withSection("long", threshold: longest) {}
  watchdog.withSection("short", threshold: shortest) {}
  watchdog.withSection("work", threshold: .milliseconds(200)) { computeInTheWay(600) }
  while !isReported.load(ordering: .acquiring) { usleep(10_000) }
  say("threads=\("\(try watchdog.captureThreads(timeout: longest))".isEmpty == false)")
  do { _ = try watchdog.captureThreads(timeout: shortest) } catch { say("capture=\(error.code == .timedOut)") }
  try watchdog.reconfigure { $0.sampling.threshold = .seconds(2) }
  activity.end()
  say("stopped=\(watchdog.stop(patience: longest))")
}

/// Makes `descriptor` a full pipe. Returns the reading end.
func fillPipe(_ descriptor: Int32) -> Int32 {
  var ends: [Int32] = [0, 0]
  guard pipe(&ends) == 0, dup2(ends[1], descriptor) >= 0 else { exit(2) }
  _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
  while write(ends[1], "x", 1) == 1 {}
  _ = fcntl(ends[1], F_SETFL, 0)
  close(ends[1])
  return ends[0]
}

/// Writes an invalid configuration file to the path in CULPRIT_CONFIGURATION, while standard error is a full pipe.
@Sendable func beMisconfigured(_ arguments: [String]) throws {
  guard let path = getenv("CULPRIT_CONFIGURATION").map({ String(cString: $0) }) else { exit(2) }
  let watchdog = try Watchdog()
  let unread = fillPipe(STDERR_FILENO)
  let file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
  _ = write(file, "interval = nonsense\nthreshold = 3s\n", 35)
  close(file)
  // Ends a hanging process.
  alarm(30)
  while watchdog.configuration.sampling.threshold != .seconds(3) { usleep(10_000) }
  say("problems=\(watchdog.status.problems.count)")
  say("metrics=\(watchdog.metrics.prometheusText().isEmpty == false)")
  try watchdog.reconfigure { $0.sampling.threshold = .seconds(5) }
  say("stopped=\(watchdog.stop(patience: .seconds(1)))")
  close(unread)
}

/// Begins and releases an activity. Returns the number of page faults of the release.
@inline(never)
private func beginAndLetGo(_ watchdog: Watchdog) throws -> Int {
  let activity = try watchdog.beginActivity("forgotten")
  let before = ownPages()
  _ = consume activity
  return ownPages() - before
}

/// Releases an activity while standard error is a full pipe.
@Sendable func letGoOfAnActivity(_ arguments: [String]) throws {
  let unread = fillPipe(STDERR_FILENO)
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .seconds(4)))
  let pages = try beginAndLetGo(watchdog)
  say("let go=true")
  say("pages=\(pages)")
  var text: [UInt8] = []
  var chunk = [UInt8](repeating: 0, count: 4096)
  while !String(decoding: text, as: UTF8.self).contains("beginAndLetGo") {
    let count = read(unread, &chunk, chunk.count)
    guard count > 0 else { break }
    text += chunk[..<count].drop { $0 == UInt8(ascii: "x") }
  }
  say("told=true")
  // The message about a second activity cannot be written. `stop()` must not wait for the message.
  let other = fillPipe(STDERR_FILENO)
  _ = try beginAndLetGo(watchdog)
  watchdog.stop(patience: .seconds(10))
  say("stopped=true")
  for descriptor in [unread, other] { close(descriptor) }
}

/// Uses a hostile name wherever the API takes one, and prints all results. The watchdog terminates the process.
@Sendable func beNasty(_ arguments: [String]) throws {
  guard let directory = arguments.first else { exit(2) }
  if let file = fopen("/proc/thread-self/comm", "w") {
    fputs("t\u{1B}[1m\nINJECT", file)
    fclose(file)
  }
  chdir(directory)
  var configuration = Watchdog.Configuration(
    threshold: .milliseconds(200),
    interval: .milliseconds(50),
    directory: "\(directory)/\(nasty)"
  )
  configuration.lifecycle.terminateAfter = .seconds(2)
  configuration.lifecycle.notifiesSystemd = true
  do {
    let file = Watchdog.Configuration(directory: "\(directory)/\(nasty).file")
    close(open("\(directory)/\(nasty).file", O_CREAT | O_WRONLY, 0o600))
    _ = try Watchdog(file)
  } catch { say("\(error)") }
  let watchdog = try Watchdog(configuration)
  watchdog.onPreviousRun { say("\($0)") }
  watchdog.onStallBegan { say("\($0)") }
  watchdog.onHang { say("\($0)") }
  watchdog.onTerminate { termination in
    say("\(termination)")
    return .terminate
  }
  watchdog.addContext(nasty) { nasty }
  let loop = try watchdog.watchLoop(named: nasty)
  do { _ = try watchdog.watchLoop(named: nasty) } catch { say("\(error)") }
  do { _ = try watchdog.beginActivity(nasty, threshold: .zero) } catch { say("\(error)") }
  do { try watchdog.reconfigure { $0.storage.directory = nasty } } catch { say("\(error)") }
  _ = try watchdog.beginActivity(nasty)
  say("\(try watchdog.captureThreads())")
  watchdog.notifySystemd(status: nasty)
  loop.withTurn(label: nasty) { computeInTheWay(500) }
  usleep(500_000)
  for problem in watchdog.status.problems { say(problem) }
  for limitation in watchdog.status.limitations { say("\(limitation)") }
  loop.withTurn(label: nasty) { while true { computeInTheWay(100) } }
}

/// Suspends in a section while its child tasks compute on all threads. Repeats this until a report has task times: the
/// watchdog must first locate task data.
@Sendable func yieldToOthers(_ arguments: [String]) throws {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(400), interval: .milliseconds(50)))
  let isReported = Atomic<Bool>(false)
  watchdog.onStall { report in
    guard let times = report.taskTimes, !isReported.exchange(true, ordering: .relaxed) else { return }
    say("culprit=\(report.culprit?.function.name ?? "nobody")")
    say("ready=\(times.ready >= .milliseconds(300))")
    say("suspended=\(times.suspended >= .milliseconds(100))")
  }
  for _ in 0..<20 where !isReported.load(ordering: .relaxed) {
    let isOver = DispatchSemaphore(value: 0)
    Task.detached {
      await withTaskGroup { group in
        await watchdog.withSection("polite", threshold: .milliseconds(200)) {
          for _ in 0..<2 * max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) { group.addTask { computeInTheWay(600) } }
          await Task.yield()
        }
        await group.waitForAll()
      }
      isOver.signal()
    }
    isOver.wait()
    usleep(300_000)
  }
  watchdog.stop(patience: .seconds(60))
}

import ChildProcesses
import Culprit
import Foundation
import SplitMix
import StressHarm
import Synchronization

/// What the service does to itself, one thing after the other on a thread of its own.
final class Harm: @unchecked Sendable {
  // SAFETY: what is not constant is used by the thread that runs it, and by the main thread when that has ended.
  private enum Act: String, CaseIterable {
    case fork, forkStarting, program, threads, library, signals, storm, profile, descriptors, memory, files, queue,
      pages
    case restart, rudeRestart, capture, brokenErrors, hangup, expired, abandoned, spin
    /// What must be counted as a mistake.
    case death, damage
  }

  private let service: Service
  private var random: SplitMix
  private let hangups: Int32
  private let possible: [Act]
  private let faults: [Act]
  private var acts: [Act: Int] = [:]
  /// Files of the service, by what is in them.
  private var kept: [KeptFile] = []

  private struct KeptFile {
    var path: String
    var descriptor: Int32
    var identity: (dev_t, ino_t)
    var content: [UInt8]
  }

  /// What there is.
  static var names: [String] { Act.allCases.map(\.rawValue).filter { !faults.contains($0) } }
  /// What is done only when it is asked for.
  static var faults: [String] { [Act.death, .damage].map(\.rawValue) }

  init(_ service: Service, _ random: SplitMix, _ hangups: Int32, without: Set<String>, faults: Set<String>) {
    (self.service, self.random, self.hangups) = (service, random, hangups)
    possible = Self.names.filter { !without.contains($0) }.compactMap(Act.init)
    self.faults = faults.sorted().compactMap(Act.init)
  }

  func run() {
    var lastTold = stress_now_ns()
    for number in 0..<32 { keep(number) }
    var number = 0
    while !service.isOver.load(ordering: .relaxed) {
      number += 1
      // What is asked for comes for sure, one after the other.
      let act: Act
      if !faults.isEmpty, number % 3 == 1 {
        act = faults[number / 3 % faults.count]
      } else if !possible.isEmpty {
        act = possible[random.number(0...possible.count - 1)]
      } else {
        usleep(10_000)
        continue
      }
      acts[act, default: 0] += 1
      // To be seen should it be the last.
      tell(.acts, "\(act)")
      perform(act)
      checkKept()
      if stress_now_ns() - lastTold > 5_000_000_000 {
        tellActs()
        lastTold = stress_now_ns()
      }
      usleep(UInt32(random.number(0...60_000)))
    }
  }

  func tellActs() {
    tell(.acts, acts.map { "\($0.key)=\($0.value)" }.sorted().joined(separator: " "))
  }

  private func fail(_ text: String) { tell(.error, text) }

  private func perform(_ act: Act) {
    switch act {
    case .fork: fork(starts: false)
    case .forkStarting: fork(starts: true)
    case .program: runProgram()
    case .threads: startThreads()
    case .library:
      guard let plugins = service.plugins else { return }
      let loaded = (0..<random.number(1...4)).compactMap { _ in plugins.load("harm") }
      for library in loaded { library.function(200_000) }
      for library in loaded { plugins.unload(library) }
    case .signals: for tid in threads() { signal(tid) }
    case .storm:
      let all = threads()
      for _ in 0..<300 { signal(all[random.number(0...all.count - 1)]) }
    case .profile: stress_profile(UInt32(random.number(500...5000)), UInt32(random.number(10_000...200_000)))
    case .descriptors: shuffleKept()
    case .memory, .files:
      service.ledger.isShort()
      let time = UInt32(random.number(1000...100_000))
      if act == .files {
        _ = stress_limit_files(time)
      } else {
        _ = stress_limit_memory(UInt64(random.number(160...512)) << 20, time)
      }
      service.ledger.hasPlenty()
    case .queue: _ = stress_limit_signals(UInt32(random.number(1000...100_000)))
    case .pages: _ = stress_drop_pages()
    case .restart: if random.isOnce(in: 2) { service.replaceWatchdog(isRude: false) }
    case .rudeRestart: if random.isOnce(in: 4) { service.replaceWatchdog(isRude: true) }
    case .capture:
      service.withWatch { watch in
        for _ in 0..<5 {
          do throws(WatchdogError) { _ = try watch.watchdog.captureThreads(timeout: .seconds(60)) } catch {
            if error.code != .stopped { fail("captureThreads: \(error)") }
          }
        }
      }
    case .brokenErrors: if random.isOnce(in: 4) { breakStandardError() }
    case .hangup:
      kill(getpid(), SIGHUP)
      if !stress_take_hangup(hangups, 20_000) { fail("SIGHUP was not there for who waits for it by signalfd") }
    case .expired: invalidateElsewhere()
    case .abandoned: abandonWork()
    case .death: kill(getpid(), SIGKILL)
    case .damage: if let file = kept.first { dup2(STDERR_FILENO, file.descriptor) }
    case .spin: computeAfterwards(UInt64(random.number(1...200)) * 1_000_000)
    }
  }

  // MARK: Signals

  /// The threads of the process, Culprit's own among them.
  private func threads() -> [Int32] {
    let names = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
    let all = names.compactMap { Int32($0) }
    return all.isEmpty ? [getpid()] : all
  }

  /// Sends `thread` a signal, unless it is one that checks its returns and would be disturbed.
  private func signal(_ thread: Int32) {
    let signal = stress_signal(random.next() >> 8)
    guard signal != SIGPROF || !stress_is_quiet(service.shared.page, thread) else { return }
    _ = stress_send(getpid(), thread, signal)
  }

  // MARK: Children

  private func fork(starts: Bool) {
    let way = random.number(0...3)
    service.withWatch { watch in
      let budget = Duration.seconds(60)
      var child: pid_t = -1
      watch.watchdog.withSection("harm", threshold: budget) {
        child = stress_fork()
        if child == 0, starts { stress_leave(watchInChild()) }
        // Otherwise it leaves the section as its parent does.
      }
      if child == 0 { leaveChild(way, watch) }
      guard child > 0 else { return fail("fork: \(String(cString: strerror(errno)))") }
      let status = stress_wait(child)
      if status != 7 {
        fail("a child \(starts ? "with a watchdog of its own" : "that left by way \(way)") ended with \(status)")
      }
    }
  }

  /// A child with a watchdog of its own.
  private func watchInChild() -> Int32 {
    do {
      let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(500)))
      watchdog.onStall { _ in }
      watchdog.withSection("child", threshold: .milliseconds(500)) { computeAfterwards(1_000_000) }
      watchdog.stop()
      return 7
    } catch { return 8 }
  }

  private func leaveChild(_ way: Int, _ watch: Service.Watch) -> Never {
    switch way {
    case 0: stress_leave(7)
    case 1: exit(7)
    case 2:
      // What the parent watched is nothing here, and its descriptors are this child's to close.
      let isWhole = stress_own_descriptors(
        { context in
          guard let context else { return }
          // SAFETY: the watchdog is kept alive by the caller.
          let watchdog = Unmanaged<Watchdog>.fromOpaque(context).takeUnretainedValue()
          watchdog.withSection("in the child", threshold: .seconds(1)) { computeAfterwards(1_000_000) }
          watchdog.stop()
          raise(SIGPROF)
        },
        Unmanaged.passUnretained(watch.watchdog).toOpaque()
      )
      stress_leave(isWhole ? 7 : 9)
    default:
      watch.watchdog.beginSection("in the child", threshold: .seconds(1)).end()
      watch.watchdog.stop()
      stress_leave(7)
    }
  }

  /// Programs that are started see neither descriptors of Culprit's nor masks.
  private func runProgram() {
    guard let pipe = try? Spawn.pipe() else { return }
    let program = ["/bin/ls", "/proc/self/fd"]
    var words: [UnsafeMutablePointer<CChar>?] = program.map { strdup($0) } + [nil]
    defer { for word in words { free(word) } }
    let child = stress_run(&words, pipe.writing, random.isOnce(in: 2))
    close(pipe.writing)
    defer { close(pipe.reading) }
    guard child > 0 else { return fail("no program could be started: \(String(cString: strerror(errno)))") }
    let said = String(decoding: Spawn.readAll(pipe.reading), as: UTF8.self)
    let status = stress_wait(child)
    if status != 0 || said != "0\n1\n2\n3\n" {
      fail("a program that was started ended with \(status), and had \(said.replacing("\n", with: " "))")
    }
  }

  // MARK: Threads

  /// Threads that mark a little work and exit.
  private func startThreads() {
    service.withWatch { watch in
      for _ in 0..<random.number(1...30) {
        let error = stress_start_thread(
          { context in
            guard let context else { return }
            // SAFETY: retained below for this thread.
            let watchdog = Unmanaged<Watchdog>.fromOpaque(context).takeRetainedValue()
            watchdog.withSection("thread", threshold: .seconds(60)) { computeAfterwards(100_000) }
          },
          Unmanaged.passRetained(watch.watchdog).toOpaque()
        )
        if error != 0 { Unmanaged.passUnretained(watch.watchdog).release() }
      }
    }
  }

  /// A thread that exits in the midst of a turn, which ends with it.
  private func abandonWork() {
    service.withWatch { watch in
      guard let loop = try? watch.watchdog.watchLoop(named: "abandoned", threshold: .seconds(60)) else { return }
      let error = stress_start_thread(
        { context in
          guard let context else { return }
          // SAFETY: retained below for this thread.
          Unmanaged<WatchedLoop>.fromOpaque(context).takeRetainedValue().begin()
        },
        Unmanaged.passRetained(loop).toOpaque()
      )
      if error != 0 { Unmanaged.passUnretained(loop).release() }
      usleep(20_000)
    }
  }

  /// A timer that another thread invalidates while its owner expects to be slow. What takes its place meanwhile is somebody
  /// else's, and is watched as ever.
  private func invalidateElsewhere() {
    service.withWatch { watch in
      let timer = watch.watchdog.beginSection("expired", threshold: .seconds(60))
      let done = DispatchSemaphore(value: 0)
      let next = timer.withExemption {
        Thread {
          timer.end()
          done.signal()
        }.start()
        done.wait()
        let next = watch.watchdog.beginSection("successor", threshold: Service.threshold)
        timer.label("after its end")
        return next
      }
      if random.isOnce(in: 2) {
        service.ledger.begins("successor", .computing)
        computeForLong(1_200_000_000)
        next.end()
        if !service.isCurrent(watch) { service.ledger.void("successor") }
        service.ledger.ended("successor", .computing)
      }
      next.end()
    }
  }

  // MARK: Descriptors

  private func keep(_ number: Int) {
    let path = "\(service.directory)/kept-\(getpid())-\(number)"
    let content = (0..<random.number(10...4000)).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    let descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0o600)
    guard descriptor >= 0 else { return fail("a file could not be made: \(String(cString: strerror(errno)))") }
    _ = write(descriptor, content, content.count)
    kept.append(KeptFile(path: path, descriptor: descriptor, identity: identity(descriptor), content: content))
  }

  private func identity(_ descriptor: Int32) -> (dev_t, ino_t) {
    var found = stat()
    return fstat(descriptor, &found) == 0 ? (found.st_dev, found.st_ino) : (0, 0)
  }

  /// Closes some of them and opens them again: in the lowest numbers that are free by then.
  private func shuffleKept() {
    let some = kept.indices.filter { _ in random.isOnce(in: 2) }
    for index in some {
      if close(kept[index].descriptor) != 0 { fail("a descriptor was closed by somebody else") }
    }
    for index in some.shuffled(using: &random) {
      kept[index].descriptor = open(kept[index].path, O_RDWR | O_CLOEXEC)
      if kept[index].descriptor < 0 { fail("a file could not be opened: \(String(cString: strerror(errno)))") }
    }
  }

  /// Whether every file is what it was, under its number.
  private func checkKept() {
    for file in kept {
      var content = [UInt8](repeating: 0, count: file.content.count + 1)
      let count = pread(file.descriptor, &content, content.count, 0)
      if identity(file.descriptor) != file.identity || count != file.content.count
        || content.dropLast() != file.content[...]
      {
        fail("the descriptor \(file.descriptor) of \(file.path) was damaged")
      }
    }
  }

  // MARK: Standard error

  /// A watchdog whose reports go to a standard error that nobody reads.
  private func breakStandardError() {
    service.replaceWatchdog(isRude: false) {
      let former = stress_break_standard_error()
      guard former >= 0 else { return }
      defer { stress_mend_standard_error(former) }
      guard let watchdog = try? Watchdog(Watchdog.Configuration(threshold: .milliseconds(50))) else { return }
      watchdog.withSection("unread", threshold: .milliseconds(50)) { computeAfterwards(150_000_000) }
      watchdog.stop()
    }
  }
}

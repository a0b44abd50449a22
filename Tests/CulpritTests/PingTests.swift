import CulpritStallRecord
import Dispatch
import Foundation
import SourceLoads
import Synchronization
import TestSupport
import Testing

@testable import Culprit

/// Sources that are watched by pings: a known function stalls each, and is named.
@Suite(.serialized, .usesObserver) struct PingTests {
  private let quick = Watchdog.Configuration(threshold: .milliseconds(400), interval: .milliseconds(50))

  /// Runs `body` with a watchdog, stops it and returns what it reported.
  private func reports(_ body: (Watchdog) throws -> Void) throws -> [StallReport] {
    let reports = Reports()
    let watchdog = try Watchdog(quick)
    watchdog.onStall { reports.add($0) }
    do { try body(watchdog) } catch {
      watchdog.stop()
      throw error
    }
    watchdog.stopPatiently()
    return reports.all
  }

  /// Waits until `condition` holds, for 20 s at most.
  private func wait(until condition: () -> Bool) {
    for _ in 0..<2000 where !condition() { usleep(10_000) }
  }

  @Test func theLayoutOfQueuesIsFoundOut() throws {
    let layout = try #require(QueueLayout.current)
    let queue = DispatchQueue(label: "layout")
    #expect(queue.sync { layout.isDrainedByCaller(queue) })
    #expect(!layout.isDrainedByCaller(queue))
    let concurrent = DispatchQueue(label: "concurrent", attributes: .concurrent)
    let isDrained = Mutex(true)
    let done = DispatchSemaphore(value: 0)
    concurrent.async {
      isDrained.withLock { $0 = layout.isDrainedByCaller(concurrent) }
      done.signal()
    }
    done.wait()
    #expect(!isDrained.withLock { $0 })
  }

  /// Also of a queue that has nothing behind it: where the memory that the allocator has taken so far ends.
  @Test func theLayoutOfQueuesIsAlwaysTheSame() throws {
    let layout = try #require(QueueLayout.current)
    let missed = Mutex<[QueueLayout?]>([])
    let done = DispatchSemaphore(value: 0)
    // Another thread has memory of its own, which grows by single pages.
    Thread.detachNewThread {
      var kept: [UnsafeMutableRawPointer?] = []
      for _ in 0..<3000 {
        // What was let go of is taken first, so that the queue is behind everything.
        for _ in 0..<8 { kept.append(malloc(Int.random(in: 16...300))) }
        let found = QueueLayout()
        if found != layout { missed.withLock { $0.append(found) } }
      }
      for memory in kept { free(memory) }
      done.signal()
    }
    done.wait()
    #expect(missed.withLock { $0.count } == 0)
  }

  /// What a stall of `source` must look like: `stallByComputing(for:)` is to blame for at least half of it.
  private func check(_ reports: [StallReport], _ source: StallReport.Source) throws -> StallReport {
    let report = try #require(reports.first)
    #expect(reports.count == 1)
    #expect(report.source == source)
    #expect(report.culprit?.function.name == "stallByComputing(for:)", "\(report)")
    #expect(report.hasEnded)
    // What was in the way may have begun before the ping was sent.
    #expect(report.description.contains("was stuck for at least "), "\(report)")
    return report
  }

  @Test func aBlockedQueuesBlockIsNamed() throws {
    let queue = DispatchQueue(label: "orders")
    let found = try reports { watchdog in
      let watch = try watchdog.watchQueue(queue)
      // Some pings first.
      usleep(200_000)
      queue.async { stallByComputing(for: .milliseconds(1200)) }
      for _ in 0..<20 { queue.async {} }
      queue.sync {}
      usleep(200_000)
      watch.stop()
    }
    let report = try check(found, StallReport.Source(kind: .queue, name: "orders"))
    guard case .stoodStill = report.raw.blame.queueProgress else {
      Issue.record("\(report)")
      return
    }
    #expect(report.description.contains("QUEUE     stood still"))
    // Who waits in `sync` waits in the queue, too.
    #expect(report.waitingWork?.count == 21 && report.waitingWork?.isLowerBound == false, "\(report)")
    #expect(report.description.contains("21 blocks waited at a time, the oldest for "), "\(report)")
  }

  /// Sending a ping is the application's code, and takes its time: the source is not stuck meanwhile.
  @Test func aHandOverThatTakesLongIsNoStall() throws {
    let loop = ClosureLoop()
    let pings = Finished()
    let found = try reports { watchdog in
      let watch = try watchdog.watchLoop(named: "slowly handed over") { ping in
        usleep(700_000)
        loop.execute {
          ping()
          pings.set()
        }
      }
      wait { pings.isSet }
      watch.stop()
    }
    loop.stop()
    #expect(found.isEmpty, "\(found)")
  }

  /// One that does not end is a stall all the same.
  @Test func aHandOverThatDoesNotEndIsAStall() throws {
    let loop = ClosureLoop()
    let isTold = Finished()
    let found = try reports { watchdog in
      watchdog.onStallBegan { _ in isTold.set() }
      let watch = try watchdog.watchLoop(named: "never handed over") { ping in
        while !isTold.isSet { usleep(10_000) }
        loop.execute(ping)
      }
      wait { isTold.isSet }
      watch.stop()
    }
    loop.stop()
    #expect(!found.isEmpty)
  }

  /// Nor does one keep others from being watched that comes back only to be held up once more, where all of them were.
  @Test func handOversThatAreHeldUpInTurnBlindNobody() throws {
    let loop = ClosureLoop()
    let (first, second) = (Turnstile(), Turnstile())
    _ = try reports { watchdog in
      let loops = try [(first, "first"), (second, "second")].map { turnstile, name in
        try watchdog.watchLoop(named: name) { ping in
          turnstile.pass()
          loop.execute(ping)
        }
      }
      wait { first.arrived == 1 && second.arrived == 1 && watchdog.status.problems.count == 2 }
      // Who waits to lead has seen that nothing is due.
      usleep(1_200_000)
      first.letOneIn()
      wait { first.arrived == 2 }
      second.letOneIn()
      wait { second.arrived == 2 }
      #expect(first.arrived == 2 && second.arrived == 2)
      for turnstile in [first, second] { turnstile.open() }
      for loop in loops { loop.stop() }
    }
    loop.stop()
  }

  /// Nor does it keep anybody else from being watched, and the status says that it does not end.
  @Test func aHandOverThatDoesNotEndBlindsNobody() throws {
    let (stuck, healthy) = (ClosureLoop(), ClosureLoop())
    let queue = DispatchQueue(label: "healthy queue")
    let (isHeldUp, isLetGo, isTold) = (Finished(), Finished(), Finished())
    let problems = Mutex<[String]>([])
    let found = try reports { watchdog in
      let told = Mutex<Set<String>>([])
      watchdog.onStall { report in
        let all = told.withLock {
          $0.insert(report.source.name)
          return $0
        }
        if all.isSuperset(of: ["healthy", "also healthy", "healthy queue"]) { isTold.set() }
      }
      let loops = try [
        watchdog.watchLoop(named: "stuck") { ping in
          isHeldUp.set()
          while !isLetGo.isSet { usleep(10_000) }
          stuck.execute(ping)
        },
        watchdog.watchLoop(named: "also stuck") { ping in
          while !isLetGo.isSet { usleep(10_000) }
          stuck.execute(ping)
        },
        watchdog.watchLoop(named: "healthy") { ping in healthy.execute(ping) },
        watchdog.watchQueue(queue),
        // One that is watched only by then.
        watchdog.watchExecutor(healthy, named: "also healthy"),
      ]
      wait { isHeldUp.isSet && watchdog.status.problems.count { $0.contains("stuck\"") } == 2 }
      problems.withLock { $0 = watchdog.status.problems }
      healthy.execute { stallByComputing(for: .milliseconds(1500)) }
      queue.async { stallByComputing(for: .milliseconds(1500)) }
      wait { isTold.isSet }
      isLetGo.set()
      wait { watchdog.status.problems.isEmpty }
      #expect(watchdog.status.problems.isEmpty)
      for loop in loops { loop.stop() }
    }
    #expect(isTold.isSet, "\(found)")
    for name in ["stuck", "also stuck"] {
      let sentence = "no probe is put into event loop \"\(name)\": the closure that does it has not returned for "
      #expect(problems.withLock { $0 }.contains { $0.hasPrefix(sentence) }, "\(problems.withLock { $0 })")
    }
    for loop in [stuck, healthy] { loop.stop() }
  }

  @Test func aCongestedQueueIsSaidToMove() throws {
    let queue = DispatchQueue(label: "busy")
    let found = try reports { watchdog in
      let watch = try watchdog.watchQueue(queue, named: "counter")
      usleep(200_000)
      for _ in 0..<60 { queue.async { stallByComputing(for: .milliseconds(20)) } }
      queue.sync {}
      usleep(200_000)
      watch.stop()
    }
    // Where this thread loses its processor half-way, two pings wait, one after the other, and each is a stall.
    #expect(Set(found.map(\.id)).count == found.count)
    let longest = try #require(found.max { $0.duration < $1.duration })
    let report = try check([longest], StallReport.Source(kind: .queue, name: "counter"))
    guard case .moved(let between, let of) = report.raw.blame.queueProgress else {
      Issue.record("\(report)")
      return
    }
    #expect(between * 2 > of)
    #expect(report.description.contains("QUEUE     moved on, but had more work than it could do"))
  }

  /// Who works on a queue whose blocks run at the same time is not known, and nobody is blamed for it.
  @Test func aConcurrentQueueIsWatchedWithoutAWorker() throws {
    let queue = DispatchQueue(label: "many", attributes: .concurrent)
    let found = try reports { watchdog in
      let watch = try watchdog.watchQueue(queue)
      usleep(200_000)
      queue.async(flags: .barrier) { stallByComputing(for: .milliseconds(1000)) }
      queue.sync {}
      usleep(200_000)
      watch.stop()
    }
    // Where other tests take all processors a ping may wait for one beforehand, and that is a stall, too.
    let report = found.first {
      $0.otherThreads?.groups.contains { $0.functions.contains { $0.name == "stallByComputing(for:)" } } ?? false
    }
    #expect(report != nil, "\(found)")
    for report in found {
      #expect(report.culprit == nil || report.culprit?.function.name == "stallByComputing(for:)", "\(report)")
    }
  }

  /// The stall of the thread pool that was saved in `directory`. On a busy machine one of its jobs may be stuck as well.
  private func poolStall(in directory: String) throws -> Stall? {
    try stallFiles(in: directory).compactMap { try read($0).recording.stalls.first }.first { $0.source.kind == .pool }
  }

  /// In a process of its own: the tests run on the pool, too.
  @Test func theConcurrencyPoolsOccupantsAreNamed() throws {
    try withDirectory { directory in
      let process = try ChildProcess(ChildProcess.built("stalling-process"), ["tasks", "computing", directory])
      #expect(process.hasExited && process.status == 0, "\(process)")
      let text = process.output
      #expect(text.contains("STALL     thread pool \"Swift concurrency\" was stuck for "), "\(text)")
      #expect(text.contains("CULPRIT   occupyThePool() "), "\(text)")
      #expect(text.contains(" % of the time of "), "\(text)")
      #expect(text.contains("\nWORKERS   "), "\(text)")
      // The saved file says the same.
      #expect(try poolStall(in: directory) != nil, "\(text)")
    }
  }

  /// What held the pool's threads for most of the time has returned when the time is up.
  @Test(arguments: ["waiting", "computing"]) func whatThePoolsThreadsDidBeforeIsToBlame(kind: String) throws {
    try withDirectory { directory in
      let process = try ChildProcess(ChildProcess.built("stalling-process"), ["in-turn", kind, directory])
      #expect(process.hasExited && process.status == 0, "\(process)")
      let text = process.output
      #expect(text.contains("CULPRIT   fillTheCache() "), "\(text)")
      let stall = try #require(try poolStall(in: directory))
      let threads = Set(stall.samples.map(\.threadID))
      #expect(threads.count == max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) && !threads.contains(nil), "\(text)")
      #expect(text.contains("\nWORKERS   \(threads.count == 1 ? "thread" : "\(threads.count) threads")"), "\(text)")
      #expect(text.contains("10 jobs waited at a time, the oldest for "), "\(text)")
    }
  }

  /// Who waits for a thread waits for those of its priority.
  @Test func threadsOfAnotherPriorityAreInNobodysWay() throws {
    try withDirectory { directory in
      let process = try ChildProcess(ChildProcess.built("stalling-process"), ["beside-others", "waiting", directory])
      #expect(process.hasExited && process.status == 0, "\(process)")
      #expect(process.output.contains("CULPRIT   fillTheCache() "), "\(process)")
      let stall = try #require(try poolStall(in: directory))
      let threads = Set(stall.samples.map(\.threadID))
      #expect(threads.count == max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN))) && !threads.contains(nil), "\(process)")
      // They are among the other threads, and nowhere else.
      let answer = try #require(process.output.components(separatedBy: "\nOTHERS").first)
      #expect(!answer.contains("takeTurns()"), "\(process)")
    }
  }

  /// One thread of several: what held it for most of the time has returned when the time is up.
  @Test(arguments: ["waiting", "computing"]) func aJobOnOneThreadIsAStall(kind: String) throws {
    try withDirectory { directory in
      let process = try ChildProcess(ChildProcess.built("stalling-process"), ["one-job", kind, directory])
      #expect(process.hasExited && process.status == 0, "\(process)")
      let text = process.output
      guard sysconf(Int32(_SC_NPROCESSORS_ONLN)) > 1, !text.contains("computingJobs") else { return }
      #expect(text.contains("STALL     job \"pool thread 1\" was stuck for at least "), "\(text)")
      #expect(text.contains("CULPRIT   fillTheCache() "), "\(text)")
      #expect(!text.contains("thread pool"), "\(text)")
    }
  }

  /// A watch that ends while a thread is in a job leaves nothing armed on that thread; nor does one that is refused.
  @Test func whatIsWatchedOfAThreadIsLetGo() throws {
    try withDirectory { directory in
      let process = try ChildProcess(ChildProcess.built("stalling-process"), ["let-go", "computing", directory])
      #expect(process.hasExited && process.status == 0, "\(process)")
      guard sysconf(Int32(_SC_NPROCESSORS_ONLN)) > 1, !process.output.contains("computingJobs") else { return }
      #expect(process.output.contains("refused=true\nwatched=2\nleft=0\n"), "\(process)")
    }
  }

  /// Tasks that keep threads busy, and give them up often enough, are no stall.
  @Test func jobsWithPausesAreNone() throws {
    try withDirectory { directory in
      let process = try ChildProcess(ChildProcess.built("stalling-process"), ["pauses", "computing", directory])
      #expect(process.hasExited && process.status == 0, "\(process)")
      #expect(!process.output.contains("STALL"), "\(process)")
    }
  }

  /// Has what `watch` watches stall by `execute`, after some pings.
  private func stall(
    _ watch: (Watchdog) throws -> WatchedProbe,
    by execute: (@escaping @Sendable () -> Void) -> Void
  ) throws -> [StallReport] {
    try reports { watchdog in
      let watch = try watch(watchdog)
      usleep(300_000)
      let done = Finished()
      execute {
        stallByComputing(for: .milliseconds(1200))
        done.set()
      }
      wait { done.isSet }
      usleep(200_000)
      watch.stop()
    }
  }

  @Test func theMainActorsWorkIsNamed() throws {
    let found = try stall({ try $0.watchMainActor() }, by: { body in Task { @MainActor in body() } })
    _ = try check(found, StallReport.Source(kind: .executor, name: "main actor"))
  }

  @Test func anExecutorsWorkIsNamed() throws {
    let loop = ClosureLoop()
    let found = try stall({ try $0.watchExecutor(loop, named: "store") }, by: loop.execute)
    _ = try check(found, StallReport.Source(kind: .executor, name: "store"))
    loop.stop()
  }

  /// The second of three loops stalls; the group's other loops do not.
  @Test func anEventLoopsWorkIsNamed() throws {
    let loops = (0..<3).map { _ in ClosureLoop() }
    let executes = loops.map { loop in { @Sendable (ping: @escaping @Sendable () -> Void) in loop.execute(ping) } }
    let found = try stall({ try $0.watchLoops(named: "io", execute: executes) }, by: loops[1].execute)
    _ = try check(found, StallReport.Source(kind: .probedLoop, name: "io #2"))
    for loop in loops { loop.stop() }
  }

  /// A loop that is gone, and one whose ping never comes back: both are let go.
  @Test func watchesEnd() throws {
    let queue = DispatchQueue(label: "gone")
    let found = try reports { watchdog in
      for _ in 0..<200 {
        let watch = try watchdog.watchQueue(queue)
        if Int.random(in: 0..<4) == 0 { usleep(2000) }
        watch.stop()
        watch.stop()
      }
      let stuck = try watchdog.watchLoop(named: "stuck") { _ in }
      usleep(100_000)
      stuck.stop()
      usleep(500_000)
      // The name is free again.
      try watchdog.watchLoop(named: "stuck") { ping in ping() }.stop()
    }
    #expect(found.count <= 1)
  }

  @Test func aPingThatIsRunTwiceEndsOnce() throws {
    let loop = ClosureLoop()
    let found = try reports { watchdog in
      let watch = try watchdog.watchLoop(named: "twice") { ping in
        loop.execute(ping)
        loop.execute(ping)
      }
      usleep(600_000)
      watch.stop()
    }
    #expect(found.isEmpty)
  }
}

/// Lets in one after the other, when it is told to.
private final class Turnstile: Sendable {
  private let count = Atomic<Int>(0)
  private let isOpen = Atomic<Bool>(false)
  private let gate = DispatchSemaphore(value: 0)

  /// How many have come.
  var arrived: Int { count.load(ordering: .relaxed) }

  func pass() {
    count.add(1, ordering: .relaxed)
    if !isOpen.load(ordering: .relaxed) { gate.wait() }
  }

  func letOneIn() { gate.signal() }

  /// Lets in all who come.
  func open() {
    isOpen.store(true, ordering: .relaxed)
    gate.signal()
  }
}

import ChildProcesses
import Culprit
import Dispatch
import Foundation
import SplitMix
import StressHarm
import Synchronization

/// The service that is harmed: threads that work and stall, a watchdog, and what harms them.
final class Service: Sendable {
  /// The watchdog of the moment.
  struct Watch: Sendable {
    var watchdog: Watchdog
    var generation: Int
  }

  /// Who may have the watchdog: many that use it, or one that replaces it.
  private struct Gate {
    var users = 0
    var isWanted = false
    var watch: Watch?
  }

  static let threshold = Duration.milliseconds(400)

  let directory: String
  let shared: Shared
  let ledger = Ledger()
  let plugins: Plugins?
  let isOver = Atomic<Bool>(false)
  private let gate = Mutex(Gate())

  /// The page that is shared with whoever looks after the service.
  struct Shared: @unchecked Sendable {
    // SAFETY: what is in it is atomic.
    var page: UnsafeMutablePointer<stress_shared>
  }

  init(directory: String, shared: UnsafeMutablePointer<stress_shared>) {
    self.directory = directory
    self.shared = Shared(page: shared)
    plugins = Plugins(in: directory)
  }

  /// Starts a watchdog.
  func start(generation: Int) throws {
    var configuration = Watchdog.Configuration(threshold: Self.threshold, interval: .milliseconds(50))
    configuration.storage.directory = directory + "/stalls"
    // None is counted instead of being reported.
    configuration.reporting.perMinute = 1_000_000
    configuration.reporting.perCulprit = 1_000_000
    let watchdog = try Watchdog(configuration)
    watchdog.onStall { [ledger] in ledger.add($0) }
    gate.withLock { $0.watch = Watch(watchdog: watchdog, generation: generation) }
  }

  /// Lets `body` have the watchdog, which is not replaced meanwhile unless somebody is rude.
  func withWatch<Result>(_ body: (Watch) throws -> Result) rethrows -> Result? {
    while true {
      let watch = gate.withLock { gate -> Watch? in
        guard !gate.isWanted, let watch = gate.watch else { return nil }
        gate.users += 1
        return watch
      }
      if let watch {
        defer { gate.withLock { $0.users -= 1 } }
        return try body(watch)
      }
      if isOver.load(ordering: .relaxed) { return nil }
      usleep(1000)
    }
  }

  /// Whether the watchdog of `watch` has not been stopped.
  func isCurrent(_ watch: Watch) -> Bool { gate.withLock { $0.watch?.generation == watch.generation } }

  /// Stops the watchdog, lets `body` run without one, and starts the next. One that `isRude` does so in the midst of stalls.
  func replaceWatchdog(isRude: Bool, _ body: () -> Void = {}) {
    gate.withLock { $0.isWanted = true }
    defer { gate.withLock { $0.isWanted = false } }
    while !isRude, gate.withLock({ $0.users }) > 0 { usleep(1000) }
    guard let watch = gate.withLock({ $0.watch }) else { return }
    gate.withLock { $0.watch = nil }
    if isRude { ledger.voidAll() }
    watch.watchdog.stop()
    body()
    while true {
      do { return try start(generation: watch.generation + 1) } catch {
        tell(.error, "a watchdog could not be started: \(error)")
        usleep(100_000)
        if isOver.load(ordering: .relaxed) { return }
      }
    }
  }

  /// Whether what began at `begin` took longer than healthy work may, which is then remembered.
  func noteIfSlow(since begin: UInt64, stopped: UInt64) {
    let now = stress_now_ns()
    let stopped = stress_stopped_ns(shared.page) &- stopped
    guard now &- begin > stopped &+ 250_000_000 else { return }
    ledger.wasSlow(from: begin, to: now)
  }

  /// Runs until `seconds` are over, with all harm but `without`, and with `faults`.
  func run(seconds: Int, seed: UInt64, without: Set<String>, faults: Set<String>) throws {
    let random = SplitMix(seed)
    // libdispatch opens what its timers need when there is the first one, and ends the process when it has no descriptor for it.
    let isReady = DispatchSemaphore(value: 0)
    DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(1)) { isReady.signal() }
    isReady.wait()
    try start(generation: 1)
    // After the watchdog's threads are there: whoever of them does not block it would get it.
    let hangups = stress_await_hangups()
    let drivers = [Driver.Kind.loop, .section, .queue].enumerated()
      .map { number, kind in Driver(self, kind, number, random.derived(UInt64(number))) }
    stress_start_quiet_threads(shared.page) { what in
      if let what { tell(.error, String(cString: what)) }
    }
    let ended = DispatchSemaphore(value: 0)
    let harm = Harm(self, random.derived(100), hangups, without: without, faults: faults)
    let bodies = drivers.map { driver in { @Sendable in driver.run() } } + [{ @Sendable in harm.run() }]
    for body in bodies {
      let thread = Thread {
        body()
        ended.signal()
      }
      thread.stackSize = 1 << 20
      thread.start()
    }
    let end = stress_now_ns() + UInt64(seconds) * 1_000_000_000
    let canary = CanaryQueue(self)
    while stress_now_ns() < end {
      canary.look()
      let (began, stopped) = (stress_now_ns(), stress_stopped_ns(shared.page))
      usleep(20_000)
      noteIfSlow(since: began, stopped: stopped)
      stress_beat(shared.page)
    }
    isOver.store(true, ordering: .relaxed)
    for _ in bodies { while ended.wait(timeout: .now() + .milliseconds(100)) == .timedOut { stress_beat(shared.page) } }
    gate.withLock { $0.watch }?.watchdog.stop()
    harm.tellActs()
    tell(
      .done,
      "\(stress_quiet_calls()) calls that are checked, \(stress_signals()) signals handled, "
        + "\(stress_stolen_signals()) of them on threads of Culprit's"
    )
  }
}

/// A queue that nobody stalls: while it is not served the others are not either, whatever the kernel makes Dispatch's threads
/// wait for.
private final class CanaryQueue {
  private final class Flag: Sendable { let isSet = Atomic<Bool>(true) }

  private let queue = DispatchQueue(label: "canary")
  private let service: Service
  private let served = Flag()
  private var sent: UInt64 = 0
  private var stopped: UInt64 = 0

  init(_ service: Service) { self.service = service }

  /// Notes how long the last block has waited, and puts in the next one when it has been run.
  func look() {
    if sent != 0 { service.noteIfSlow(since: sent, stopped: stopped) }
    guard served.isSet.load(ordering: .acquiring) else { return }
    served.isSet.store(false, ordering: .relaxed)
    (sent, stopped) = (stress_now_ns(), stress_stopped_ns(service.shared.page))
    queue.async { [served] in served.isSet.store(true, ordering: .releasing) }
  }
}

/// A thread that works on one source, healthily for most of the time.
final class Driver: Sendable {
  enum Kind: String, Sendable { case loop, section, queue }

  private let service: Service
  private let kind: Kind
  private let random: Mutex<SplitMix>
  private let tools: StallTools
  private let queue = DispatchQueue(label: "queue")

  init(_ service: Service, _ kind: Kind, _ number: Int, _ random: SplitMix) {
    self.service = service
    self.kind = kind
    self.random = Mutex(random)
    tools = StallTools(number, service.plugins)
  }

  private func draw<Value>(_ body: (inout SplitMix) -> Value) -> Value { random.withLock { body(&$0) } }

  func run() {
    var generation = 0
    var loop: WatchedLoop?
    var watch: WatchedProbe?
    while !service.isOver.load(ordering: .relaxed) {
      service.withWatch { current in
        if current.generation != generation {
          generation = current.generation
          loop = nil
          watch?.stop()
          watch = nil
          switch kind {
          case .loop: loop = try? current.watchdog.watchLoop(named: kind.rawValue)
          case .section: break
          case .queue: watch = try? current.watchdog.watchQueue(queue)
          }
        }
        guard kind == .section || loop != nil || watch != nil else {
          // Stopped between the two; or it will be tried again.
          generation = 0
          return
        }
        for _ in 0..<draw({ $0.number(5...60) }) { healthy(current.watchdog, loop) }
        stall(current, loop)
      }
    }
    watch?.stop()
  }

  private func work(_ watchdog: Watchdog, _ loop: WatchedLoop?, _ label: String, _ body: @escaping @Sendable () -> Void)
  {
    switch kind {
    case .loop: loop?.withTurn(label: label) { body() }
    case .section: watchdog.withSection(kind.rawValue, threshold: Service.threshold) { body() }
    case .queue: queue.sync(execute: body)
    }
  }

  private func healthy(_ watchdog: Watchdog, _ loop: WatchedLoop?) {
    let (began, stopped) = (stress_now_ns(), stress_stopped_ns(service.shared.page))
    let time = draw { $0.number(0...2000) }
    work(watchdog, loop, "healthy") {
      if time % 2 == 0 { usleep(UInt32(time)) } else { computeAfterwards(UInt64(time) * 1000) }
    }
    service.noteIfSlow(since: began, stopped: stopped)
  }

  private func stall(_ watch: Service.Watch, _ loop: WatchedLoop?) {
    let culprit = draw { Culprit.allCases[$0.number(0...Culprit.allCases.count - 1)] }
    guard culprit != .plugin || service.plugins != nil else { return }
    let time = UInt64(draw { $0.number(1000...2500) }) * 1_000_000
    let (service, kind, tools) = (service, kind, tools)
    work(watch.watchdog, loop, "stalled") {
      service.ledger.begins(kind.rawValue, culprit)
      let began = stress_running_ns()
      // What could not be done, for want of a descriptor, has not stalled.
      let hasStalled = culprit.stall(time, tools)
      // Who waits until a time is given waits no longer for having been stopped, and that is no part of a stall.
      let isLong = Duration.nanoseconds(stress_running_ns() &- began) > Service.threshold * 1.5
      if !hasStalled || !isLong { service.ledger.void(kind.rawValue) }
    }
    if !service.isCurrent(watch) { service.ledger.void(kind.rawValue) }
    service.ledger.ended(kind.rawValue, culprit)
  }
}

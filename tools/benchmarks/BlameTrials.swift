import Culprit
import Glibc
import Synchronization

/// Work that takes until a given time, each kind in a function of its own: what a trial's A and B are drawn from.
struct Work: Sendable {
  /// What reports call the function.
  var name: String
  var run: @Sendable (ContinuousClock.Instant) -> Void

  static let all = [
    Work(name: "spinOnIntegers(until:)", run: spinOnIntegers),
    Work(name: "buildStrings(until:)", run: buildStrings),
    Work(name: "sortNumbers(until:)", run: sortNumbers),
    Work(name: "fillDictionary(until:)", run: fillDictionary),
    Work(name: "waitForLock(until:)", run: waitForLock),
    Work(name: "hashBytes(until:)", run: hashBytes),
  ]
}

/// Keeps results alive, so that the compiler cannot drop the work.
private let sink = Atomic<Int>(0)

@inline(never)
func spinOnIntegers(until end: ContinuousClock.Instant) {
  var value: UInt64 = 1
  while ContinuousClock.now < end { for _ in 0..<10_000 { value = value &* 6_364_136_223_846_793_005 &+ 1 } }
  sink.store(Int(truncatingIfNeeded: value), ordering: .relaxed)
}

@inline(never)
func buildStrings(until end: ContinuousClock.Instant) {
  var length = 0
  while ContinuousClock.now < end { length += (0..<200).map(String.init).joined(separator: ",").count }
  sink.store(length, ordering: .relaxed)
}

@inline(never)
func sortNumbers(until end: ContinuousClock.Instant) {
  var first = 0
  while ContinuousClock.now < end { first += (0..<2_000).map { ($0 &* 7919) % 2_003 }.sorted()[0] }
  sink.store(first, ordering: .relaxed)
}

@inline(never)
func fillDictionary(until end: ContinuousClock.Instant) {
  var count = 0
  while ContinuousClock.now < end { count += Dictionary(uniqueKeysWithValues: (0..<500).map { ($0, $0) }).count }
  sink.store(count, ordering: .relaxed)
}

/// Waits for a lock that another thread holds until `end`. Untimed: such a wait goes on after a signal.
@inline(never)
func waitForLock(until end: ContinuousClock.Instant) {
  let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  pthread_mutex_init(lock, nil)
  let holder = LockHolder(lock, until: end)
  holder.awaitHeld()
  pthread_mutex_lock(lock)
  pthread_mutex_unlock(lock)
  holder.join()
  pthread_mutex_destroy(lock)
  lock.deallocate()
}

@inline(never)
func hashBytes(until end: ContinuousClock.Instant) {
  let bytes = [UInt8](repeating: 7, count: 4096)
  var hash: UInt64 = 0
  while ContinuousClock.now < end { for byte in bytes { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 } }
  sink.store(Int(truncatingIfNeeded: hash), ordering: .relaxed)
}

/// A thread that holds a lock for a while.
private final class LockHolder: @unchecked Sendable {
  // SAFETY: the fields are written before the thread starts; `held` is atomic; the lock outlives the thread (join).
  private let lock: UnsafeMutablePointer<pthread_mutex_t>
  private let end: ContinuousClock.Instant
  private let held = Atomic<Bool>(false)
  private let thread = BenchThread()

  init(_ lock: UnsafeMutablePointer<pthread_mutex_t>, until end: ContinuousClock.Instant) {
    self.lock = lock
    self.end = end
    thread.start { [self] in
      pthread_mutex_lock(self.lock)
      held.store(true, ordering: .releasing)
      while ContinuousClock.now < self.end { usleep(1000) }
      pthread_mutex_unlock(self.lock)
    }
  }

  func awaitHeld() { while !held.load(ordering: .acquiring) { sched_yield() } }

  func join() { thread.join() }
}

/// A plain thread.
final class BenchThread: @unchecked Sendable {
  // SAFETY: started and joined by one thread.
  private var thread = pthread_t()

  func start(_ body: @escaping @Sendable () -> Void) {
    final class Box {
      let body: @Sendable () -> Void
      init(_ body: @escaping @Sendable () -> Void) { self.body = body }
    }
    let box = Unmanaged.passRetained(Box(body))
    let error = pthread_create(
      &thread,
      nil,
      { argument in
        // SAFETY: the argument is the box retained above, consumed once.
        if let argument { Unmanaged<Box>.fromOpaque(argument).takeRetainedValue().body() }
        return nil
      },
      box.toOpaque()
    )
    precondition(error == 0, "a thread cannot be started: error \(error)")
  }

  func join() { pthread_join(thread, nil) }
}

/// One trial: A takes `share` of the stall, then B has the rest; the threshold is at 90 % of it.
private struct Trial {
  var number: Int
  var first: Work
  var second: Work
  var length: Duration
  var share: Double

  var name: String { "trial \(number)" }

  @inline(never)
  func stall() {
    let begin = ContinuousClock.now
    first.run(begin + length * share)
    second.run(begin + length)
  }
}

/// 60 random stalls: is the function that took most of each named, and what would the last stack have said?
func benchBlame(_ figures: Figures) throws {
  let seed = UInt64.random(in: 0...(.max))
  var random = SplitMix(state: seed)
  figures.note("seed \(seed)")
  let trials = (1...60)
    .map { number -> Trial in
      let works = Work.all.shuffled(using: &random)
      return Trial(
        number: number,
        first: works[0],
        second: works[1],
        length: .milliseconds(Int.random(in: 2000...5000, using: &random)),
        share: Double.random(in: 0.55...0.85, using: &random)
      )
    }
  let watchdog = try Watchdog()
  let reports = Mutex<[String: StallReport]>([:])
  watchdog.onStall { report in reports.withLock { $0[report.stall.source.name] = report } }
  // Four at a time: more threads than processors, as services have.
  let next = Atomic<Int>(0)
  let threads = (0..<4).map { _ in BenchThread() }
  for thread in threads {
    thread.start {
      while true {
        let index = next.add(1, ordering: .relaxed).oldValue
        guard index < trials.count else { return }
        let trial = trials[index]
        guard let loop = try? watchdog.watchLoop(named: trial.name, stallThreshold: trial.length * 0.9) else {
          continue
        }
        loop.turn { trial.stall() }
        loop.stop()
      }
    }
  }
  for thread in threads { thread.join() }
  watchdog.stop()
  let found = reports.withLock { $0 }
  var (named, lastStackRight) = (0, 0)
  for trial in trials {
    let report = found[trial.name]
    let culprit = report?.culprit?.frame.function ?? "nobody"
    let last = report?.blame.lastStackBlames?.function ?? "nobody"
    let isNamed = culprit == trial.first.name
    if isNamed { named += 1 }
    if last == trial.first.name { lastStackRight += 1 }
    let share = report?.culprit.map { "\(Int(($0.share.fraction * 100).rounded())) %" } ?? "-"
    figures.note(
      "\(trial.name): \(trial.first.name) \(Int((trial.share * 100).rounded())) % of \(trial.length), then "
        + "\(trial.second.name); named \(culprit) \(share), last stack \(last)\(isNamed ? "" : "  <- wrong")"
    )
  }
  figures.print("blame.trials", Double(trials.count), "stalls")
  figures.print("blame.culprit_named", Double(named), "stalls", in: 60...60)
  figures.print("blame.last_stack_right", Double(lastStackRight), "stalls", in: 0...0)
}

/// A small generator that can be seeded: Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014).
struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }
}

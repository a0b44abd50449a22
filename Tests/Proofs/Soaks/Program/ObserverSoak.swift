import Judges
import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind
import Culprit
import CulpritStallRecord
import Glibc
import SoakCallers

/// Repeatedly captures stacks of threads that constantly block, and counts disturbed system calls.
struct ObserverSoak {
  /// The minimum number of stacks to capture.
  var samplesMin: Int
  var threadsPerKind: Int
  /// Determines the threads' random choices.
  var seed: UInt64

  private struct Taken {
    /// The number of stacks read from outside, and of stacks captured by a signal.
    var (passive, signalled) = (0, 0)
    /// Stacks that reach the thread's first function.
    var complete = 0
    /// Threads without a captured stack.
    var missing = 0

    var samples: Int { passive + signalled }

    mutating func add(isPassive: Bool, isComplete: Bool) {
      if isPassive { passive += 1 } else { signalled += 1 }
      if isComplete { complete += 1 }
    }
  }

  /// Reports progress in steps of a tenth.
  private struct Progress {
    private let all: Int
    private let figures: Figures
    private let clock = ContinuousClock()
    private let began: ContinuousClock.Instant
    private var tenths = 1

    init(_ all: Int, _ figures: Figures) {
      self.all = all
      self.figures = figures
      began = clock.now
    }

    mutating func reached(_ samples: Int) {
      while samples >= all * tenths / 10, tenths <= 10 {
        figures.note("\(samples) samples after \(began.duration(to: clock.now).components.seconds) s")
        tenths += 1
      }
    }
  }

  /// Runs the soak test and prints its results.
  ///
  /// - Parameters:
  ///   - atOnce: Whether every thread is signalled immediately, in any state. Culprit never does this.
  ///   - figures: Receives the results.
  /// - Throws: ``WatchdogError`` when stacks cannot be captured here, ``ProofError`` when the threads cannot be started.
  func run(atOnce: Bool, _ figures: Figures) throws {
    figures.note("seed \(seed), \(Int(soak_kinds()) * threadsPerKind) threads")
    let taken = atOnce ? try signalAtOnce(figures) : try observe(figures)
    figures.print("soak.samples", Double(taken.samples), "samples", in: Double(samplesMin)...Double.infinity)
    figures.print("soak.passive", Double(taken.passive), "samples")
    figures.print("soak.signalled", Double(taken.signalled), "samples")
    figures.print("soak.missing", Double(taken.missing), "samples")
    figures.print("soak.complete", 100 * Double(taken.complete) / Double(taken.samples), "%")
    let kinds = (0..<soak_kinds()).map { (name: String(cString: soak_kind_name($0)), counts: soak_counts($0)) }
    for (name, counts) in kinds {
      let early = counts.early == 0 ? "0 early" : "\(counts.early) early, by up to \(counts.most_early_ns) ns"
      figures.note("\(name): \(counts.calls) calls, \(counts.woken) woken, \(counts.interrupted) interrupted, \(early)")
    }
    let known = Set((0..<soak_kinds()).filter { soak_may_return_early($0) }.map { String(cString: soak_kind_name($0)) })
    func sum(_ count: KeyPath<soak_counts, UInt64>, ofKnown: Bool = false) -> Double {
      Double(kinds.filter { known.contains($0.name) == ofKnown }.reduce(0) { $0 + $1.counts[keyPath: count] })
    }
    figures.print("soak.calls", sum(\.calls), "calls")
    // A kind of call without calls, or with unexpected results, proves nothing.
    figures.print(
      "soak.kinds",
      Double(kinds.count { $0.counts.calls > 0 }),
      "kinds",
      in: Double(kinds.count)...Double(kinds.count)
    )
    figures.print("soak.unexpected", sum(\.unexpected), "calls", in: 0...0)
    if atOnce {
      // The control: every kind of call notices the signal, unless the kernel or the C library restarts the call.
      let restarting: Set = ["pthread_cond_timedwait", "read", "accept", "flock", "sem_wait"]
      let wrong = kinds.filter { restarting.contains($0.name) != ($0.counts.interrupted == 0) }.map(\.name)
      if !wrong.isEmpty { figures.note("wrong kinds: \(wrong.joined(separator: ", "))") }
      figures.print("soak.control_interrupted", sum(\.interrupted), "calls", in: 100...Double.infinity)
      figures.print("soak.control_wrong_kinds", Double(wrong.count), "kinds", in: 0...0)
      return
    }
    figures.print("soak.interrupted", sum(\.interrupted), "calls", in: 0...0)
    figures.print("soak.early", sum(\.early), "calls", in: 0...0)
    guard !known.isEmpty else { return }
    // The documented exceptions (docs/internals/capture.md), which the sums above exclude.
    figures.print("soak.io_uring_calls", sum(\.calls, ofKnown: true), "calls")
    figures.print("soak.io_uring_interrupted", sum(\.interrupted, ofKnown: true), "calls")
    figures.print("soak.io_uring_unexpected", sum(\.unexpected, ofKnown: true), "calls", in: 0...0)
  }

  /// Runs `body` with the ids of the calling threads, while they run.
  private func withCallers<Result>(_ body: (Set<Int32>) throws -> Result) throws -> Result {
    let error = soak_start(Int32(threadsPerKind), seed)
    guard error == 0 else {
      throw ProofError("cannot start the threads: \(String(cString: strerror(error)))")
    }
    defer { soak_stop() }
    return try body(Set((0..<soak_kinds() * Int32(threadsPerKind)).map { soak_thread($0) }))
  }

  /// Captures the stacks of all threads repeatedly, without a pause.
  private func observe(_ figures: Figures) throws -> Taken {
    let watchdog = try Watchdog()
    defer { watchdog.stop() }
    var progress = Progress(samplesMin, figures)
    return try withCallers { callers in
      var taken = Taken()
      while taken.samples < samplesMin {
        let (all, stacks) = try watchdog.captureStacks(timeout: .seconds(60))
        for sample in all.threads where callers.contains(sample.thread.id) {
          guard sample.outcome == .captured, let stack = sample.stack else {
            taken.missing += 1
            continue
          }
          taken.add(isPassive: sample.handlerTime == .zero, isComplete: stacks[stack].end == .outermost)
        }
        progress.reached(taken.samples)
      }
      return taken
    }
  }

  /// Signals each thread immediately, in any state, and takes the stack that the thread's handler copies.
  private func signalAtOnce(_ figures: Figures) throws -> Taken {
    guard clinux_memory_start() != CLINUX_MEMORY_UNREADABLE,
      clinux_module_start(true) != CLINUX_MODULES_UNKNOWN, observer_unwind_start() == nil,
      observer_capture_start(128 << 10) == 0
    else { throw ProofError("stacks cannot be captured here") }
    let frames = UnsafeMutablePointer<unwind_frame>.allocate(capacity: Int(UNWIND_FRAMES_MAX))
    defer { frames.deallocate() }
    var stack = unwind_stack()
    stack.frames = frames
    stack.end = UNWIND_END_NOT_CAPTURED
    var progress = Progress(samplesMin, figures)
    return try withCallers { callers in
      var taken = Taken()
      while taken.samples < samplesMin {
        for caller in callers {
          let thread = observer_visit_begin(caller)
          defer { observer_visit_end(thread) }
          var copy: UnsafePointer<stack_copy>?
          guard observer_capture(thread, nil, 0, 1_000_000_000, &copy) == OBSERVER_CAPTURED, let copy else {
            taken.missing += 1
            continue
          }
          observer_unwind(copy, &stack)
          observer_capture_release(copy)
          taken.add(isPassive: false, isComplete: stack.end == UNWIND_END_OUTERMOST)
        }
        progress.reached(taken.samples)
      }
      return taken
    }
  }
}

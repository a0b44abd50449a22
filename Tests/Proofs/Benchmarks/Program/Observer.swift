import Judges
import BenchmarkPeers
import CCulpritLinux
import CCulpritObserver
import CCulpritUnwind
import Culprit
import CulpritStallRecord
import Glibc

/// Measures the effect of stack captures on captured and other threads. Times of brief runs mean little.
func benchObserver(_ figures: Figures, isBrief: Bool) throws {
  try ObserverBench(captures: isBrief ? 200 : 5000, rounds: isBrief ? 2 : 40).run(figures)
}

private struct ObserverBench {
  /// The number of stacks captured to time handlers.
  var captures: Int
  /// The number of measurements of the bystander, both with and without captures.
  var rounds: Int

  /// The size of the stack in timed captures.
  private static let liveBytes = 16 << 10
  private static let frames: UInt32 = 40

  /// The bound of the handler's stack use, without the kernel's part, in release and debug builds.
  private static let handlerStackBytesMax = 1024

  func run(_ figures: Figures) throws {
    try prepare()
    try timeHandlers(figures)
    try measureHandlerStack(figures)
    let watchdog = try Watchdog()
    defer { watchdog.stop() }
    for count in [8, 64, 900] { try watchBystander(beside: count, watchdog, figures) }
    try benchThreads(figures)
  }

  private func prepare() throws {
    guard clinux_memory_start() != CLINUX_MEMORY_UNREADABLE, observer_unwind_start() == nil,
      observer_capture_start(128 << 10) == 0
    else { throw ProofError("stacks cannot be captured here") }
    if let missing = peer_unwinder_start() {
      throw ProofError("the unwinder to compare with is missing: \(String(cString: missing))")
    }
  }

  /// Measures time in the handler, compared with a handler that unwinds.
  private func timeHandlers(_ figures: Figures) throws {
    let spinner = try Spinner(frames: Self.frames, liveBytes: Self.liveBytes)
    defer { spinner.stop() }
    var copying: [Double] = []
    var warm: [Double] = []
    var cold: [Double] = []
    var liveBytes = 0
    var frames: UInt32 = 0
    for turn in 0..<captures {
      let copy = try spinner.capture()
      liveBytes = max(liveBytes, copy.bytes)
      copying.append(copy.handlerTime)
      // Alternate, because the machine is shared.
      if turn % 10 == 0 {
        cold.append(Double(peer_unwind_in_handler(spinner.pointer, true, &frames)))
        warm.append(Double(peer_unwind_in_handler(spinner.pointer, false, &frames)))
      }
    }
    guard cold.allSatisfy({ $0 > 0 }), frames >= Self.frames else {
      throw ProofError("the unwinder to compare with found \(frames) frames of \(Self.frames)")
    }
    figures.note("a handler on \(liveBytes) bytes of stack in \(frames) frames; unwinding is unw_step(3) in it")
    figures.print("handler.p50", percentile(50, copying) / 1000, "us")
    // Not the maximum: other programs on a shared machine can interrupt the handler.
    figures.print("handler.p99", percentile(99, copying) / 1000, "us", in: 0...2)
    figures.print("handler.unwind_warm", median(warm) / 1000, "us")
    figures.print("handler.unwind_cold", median(cold) / 1000, "us")
    figures.print("handler.vs_unwind_warm", median(warm) / median(copying), "times")
    figures.print("handler.vs_unwind_cold", median(cold) / median(copying), "times", in: 20...Double.infinity)
  }

  /// Measures the handler's stack use. On a coroutine's stack, the handler also queries the kernel's mappings.
  private func measureHandlerStack(_ figures: Figures) throws {
    var most = 0
    var frame = 0
    for coroutine in [false, true] {
      let spinner = try Spinner(frames: 4, liveBytes: 4 << 10, coroutine: coroutine)
      defer { spinner.stop() }
      frame = spinner.handlerBytes { peer_spinner_interrupt($0) }
      most = max(most, try spinner.handlerBytes { _ in _ = try spinner.capture() } - frame)
    }
    figures.print("handler.stack", Double(most), "bytes", in: 16...Double(Self.handlerStackBytesMax))
    figures.print("handler.stack_kernel", Double(frame), "bytes")
  }

  /// Measures the longest delay of a thread that reads the clock in a loop, without captures and during captures of all
  /// threads. The process has `count` other threads.
  private func watchBystander(beside count: Int, _ watchdog: Watchdog, _ figures: Figures) throws {
    guard let crowd = peer_crowd_start(UInt32(count)), peer_bystander_start() else {
      throw ProofError("cannot start \(count) threads")
    }
    defer {
      peer_bystander_stop()
      peer_crowd_stop(crowd)
    }
    var (with, without, stopping): ([Double], [Double], [Double]) = ([], [], [])
    var captured = 0
    for turn in 0..<rounds {
      for isCapturing in turn % 2 == 0 ? [true, false] : [false, true] {
        let end = clinux_clock_ns() + 250_000_000
        _ = peer_bystander_worst_ns()
        if isCapturing {
          while clinux_clock_ns() < end {
            captured += try watchdog.captureStacks(timeout: .seconds(60)).all.threads.count
          }
          with.append(Double(peer_bystander_worst_ns()))
        } else {
          while clinux_clock_ns() < end { usleep(1000) }
          without.append(Double(peer_bystander_worst_ns()))
        }
      }
      // For comparison, a sampler that stops all threads while it unwinds them, at the speed of a handler.
      if turn % 8 == 0 {
        _ = peer_bystander_worst_ns()
        peer_crowd_stop_all(crowd, 26_000)
        usleep(10_000)
        stopping.append(Double(peer_bystander_worst_ns()))
      }
    }
    let least = Double(count * rounds)
    figures.print("bystander.captured.\(count)", Double(captured), "stacks", in: least...Double.infinity)
    figures.print("bystander.with.\(count)", median(with) / 1000, "us")
    figures.print("bystander.without.\(count)", median(without) / 1000, "us")
    figures.print("bystander.ratio.\(count)", median(with) / median(without), "times", in: 0...2)
    figures.print("bystander.ratio_stopping_all.\(count)", median(stopping) / median(without), "times")
  }
}

/// A computing thread whose stack is captured by signal.
private struct Spinner {
  let pointer: OpaquePointer

  init(frames: UInt32, liveBytes: Int, coroutine: Bool = false) throws {
    guard let pointer = peer_spinner_start(frames, liveBytes, coroutine, { _ = observer_thread_current() }) else {
      throw ProofError("cannot start a thread")
    }
    self.pointer = pointer
  }

  func stop() { peer_spinner_stop(pointer) }

  /// Captures the thread's stack.
  func capture() throws -> (bytes: Int, handlerTime: Double) {
    let thread = observer_thread_find(peer_spinner_thread(pointer))
    var copy: UnsafePointer<stack_copy>?
    guard observer_capture(thread, nil, 0, 5_000_000_000, &copy) == OBSERVER_CAPTURED, let copy else {
      throw ProofError("a thread that computes did not answer within 5 s")
    }
    defer { observer_capture_release(copy) }
    return (Int(copy.pointee.stack_bytes), Double(copy.pointee.handler_ns))
  }

  /// Returns the stack use of the handlers that `body` runs.
  func handlerBytes(_ body: (OpaquePointer) throws -> Void) rethrows -> Int {
    peer_spinner_forget_handlers(pointer)
    try body(pointer)
    // The handler reports its copy before it returns.
    usleep(20_000)
    return peer_spinner_handler_bytes(pointer)
  }
}

private func percentile(_ percent: Int, _ values: [Double]) -> Double {
  let sorted = values.sorted()
  return sorted.isEmpty ? .nan : sorted[min(sorted.count - 1, sorted.count * percent / 100)]
}

import Judges
import BenchmarkPeers
import CCulpritLinux
import Culprit
import CulpritStallRecord
import Glibc

/// Measures the capture of every thread of a process with 2,000 threads.
func benchThreads(_ figures: Figures) throws {
  let watchdog = try Watchdog()
  defer { watchdog.stop() }
  try captureCrowd(of: 2000, watchdog, figures)
}

/// Captures `count` threads repeatedly. No thread may be missing. The times are medians, because a single capture also
/// waits for unrelated work on the CPUs.
private func captureCrowd(of count: Int, _ watchdog: Watchdog, _ figures: Figures) throws {
  guard let crowd = peer_crowd_start(UInt32(count)) else {
    throw ProofError("cannot start \(count) threads")
  }
  defer { peer_crowd_stop(crowd) }
  var times: [(whole: Double, each: Double, processor: Double)] = []
  var lost = 0.0
  for _ in 0..<15 {
    let began = clinux_clock_ns()
    let used = usedProcessorTime()
    let (all, stacks) = try watchdog.captureStacks(timeout: .seconds(60))
    let time = Double(clinux_clock_ns() - began)
    let processor = usedProcessorTime() - used
    let whole = all.threads.filter { $0.outcome == .captured && $0.stack.map { !stacks[$0].frames.isEmpty } == true }
    let total = max(count, all.threads.count + all.leftOut)
    lost = max(lost, 100 * Double(total - whole.count) / Double(total))
    times.append((time, time / Double(all.threads.count), processor / Double(all.threads.count)))
  }
  // A thread that waits for a CPU on a busy machine might not be captured.
  figures.print("threads.lost", lost, "percent of threads", in: 0...0)
  figures.print("threads.time", median(times.map(\.whole)) / 1e6, "ms")
  figures.print("threads.time_first", times[0].each / 1000, "us")
  figures.print("threads.processor_each", median(times.map(\.processor)) / 1000, "us")
  figures.print("threads.time_each", median(times.map(\.each)) / 1000, "us", in: 0...25)
}

/// The CPU time that this process has used, in nanoseconds.
private func usedProcessorTime() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
  return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
}

import CCulpritLinux
import CCulpritObserver
import Glibc
import Judges
import Programs
import Synchronization

/// Measures the time a sampler needs to read the evidence of a blocked thread, without its stack, at the usual rate.
func benchEvidence(_ figures: Figures) throws {
  // The thread waits for a pipe. A reading covers the thread's system call, descriptor and kernel function.
  var ends: [Int32] = [0, 0]
  guard pipe(&ends) == 0, clinux_memory_start() != CLINUX_MEMORY_UNREADABLE else {
    throw ProofError("cannot create a pipe, or cannot read memory")
  }
  let waiting = ends[0]
  let started = Atomic<Int32>(0)
  let thread = startThread {
    started.store(clinux_task_self(), ordering: .relaxed)
    var byte: UInt8 = 0
    _ = read(waiting, &byte, 1)
  }
  usleep(200_000)
  let tid = started.load(ordering: .relaxed)
  var status = observer_thread_status()
  status.activity = OBSERVER_IN_CALL
  status.call = 0
  status.arguments.0 = UInt64(ends[0])
  var times = observer_evidence_times()
  var turns: UInt64 = 0
  /// Returns the times of `count` readings in microseconds, with a pause of `pause` microseconds between readings.
  func readings(_ count: Int, pause: UInt32) -> [Double] {
    (0..<count)
      .map { _ in
        if pause > 0 { usleep(pause) }
        let begin = clinux_clock_ns()
        var evidence = observer_evidence()
        var descriptor = observer_descriptor()
        observer_descriptor_read(clinux_task_self(), ends[0], &descriptor)
        _ = clinux_task_run_delay_ns(tid, &turns)
        observer_evidence_read(tid, 0, &status, &times, &evidence)
        return Double(clinux_clock_ns() - begin) / 1000
      }
  }
  figures.print("evidence.time_each", median(readings(20_000, pause: 0)), "µs", in: 0...20)
  // At the interval of samples, the CPU's caches are cold.
  let apart = readings(200, pause: 40_000)
  figures.print("evidence.time_each_apart", median(apart), "µs")
  figures.print("evidence.time_with_counts", apart.sorted()[apart.count * 9 / 10], "µs")
  _ = write(ends[1], [1], 1)
  pthread_join(thread, nil)
}

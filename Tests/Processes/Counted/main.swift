// Stalls under a watchdog and counts calls of the monitor, sampler and recorder. All calls of the computing thread come
// from the signal handler.
//
//   $ counted-process
//   monitor.allocations=0
//   …

import CountedCalls
import Culprit
import Glibc
import Programs
import Synchronization
import TestWorkloads

beginProgram()

func printCalls(_ name: String, _ calls: counted_calls) {
  let first = withUnsafeBytes(of: calls.first) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
  print("\(name).allocations=\(calls.allocations)\n\(name).locks=\(calls.locks)")
  print("\(name).loader=\(calls.loader_calls)\n\(name).first=\(first)")
}

/// A thread that computes in C during one turn of a watched loop.
final class Computing: @unchecked Sendable {
  // SAFETY: one thread writes the flag, another reads it in C as volatile.
  private let flag = UnsafeMutablePointer<Int32>.allocate(capacity: 1)
  private let tid = Atomic<Int32>(0)
  private let counts = Atomic<Bool>(false)

  init(_ loop: WatchedLoop) {
    flag.pointee = 0
    startThread { [self] in
      loop.begin()
      tid.store(counted_calls_own_thread(), ordering: .releasing)
      while !counts.load(ordering: .acquiring) {}
      counted_calls_compute(flag)
      loop.end()
    }
  }

  /// Starts counting. Returns the counter's index.
  func count() -> Int32 {
    while tid.load(ordering: .acquiring) == 0 { usleep(1000) }
    // After this sleep the thread only reads a flag.
    usleep(10_000)
    let place = counted_calls_begin(tid.load(ordering: .relaxed))
    counts.store(true, ordering: .releasing)
    return place
  }

  /// Ends the turn, after which the thread makes calls itself.
  func stop() { flag.pointee = 1 }
}

let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(300), interval: .milliseconds(20)))
let reported = Atomic<Int>(0)
watchdog.onStall { report in
  let passive = report.raw.stall.samples.count { $0.outcome == .captured && $0.handlerTime == .zero }
  let signalled = report.raw.stall.samples.count { $0.outcome == .captured && $0.handlerTime > .zero }
  print("\(report.source.name).passive=\(passive)\n\(report.source.name).signalled=\(signalled)")
  reported.wrappingAdd(1, ordering: .relaxed)
}
let computing = Computing(try watchdog.watchLoop(named: "computing"))
let sleeping = try watchdog.watchLoop(named: "sleeping")
let computingPlace = computing.count()
let undescribed = workload_thread_start({ @Sendable _, stop in workload_without_unwind_information(.max, stop) }, nil)
// Two stalls, to include both one-time and repeated work.
let monitorPlace = counted_calls_begin(counted_calls_find("culprit-monitor"))
// The sampler that was started first is the active one.
let samplerPlace = counted_calls_begin(counted_calls_find("culprit-sample"))
let recorderPlace = counted_calls_begin(counted_calls_find("culprit-record"))
for _ in 0..<2 {
  sleeping.begin()
  counted_calls_sleep(900)
  sleeping.end()
  let threads = try watchdog.captureThreads()
  print("threads=\(threads.count)")
}
let inHandler = counted_calls_of(computingPlace)
computing.stop()
while reported.load(ordering: .relaxed) < 3 { usleep(10_000) }
let ofMonitor = counted_calls_of(monitorPlace)
let ofSampler = counted_calls_of(samplerPlace)
let ofRecorder = counted_calls_of(recorderPlace)
printCalls("handler", inHandler)
printCalls("monitor", ofMonitor)
printCalls("sampler", ofSampler)
printCalls("recorder", ofRecorder)
watchdog.stop(patience: .seconds(10))

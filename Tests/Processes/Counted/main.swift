// Stalls under a watchdog, and counts what the threads on the observing path call meanwhile: the monitor, and a thread that
// itself calls nothing, so that every call it makes is the signal handler's. Another one is in code of which no rule is known, so
// that libunwind is asked.
//
//   $ counted-process
//   monitor.allocations=0
//   …

import CountedCalls
import Culprit
import Glibc
import Synchronization
import TestWorkloads

// Whoever starts this may be a thread of Dispatch, which blocks most signals.
var none = sigset_t()
sigemptyset(&none)
pthread_sigmask(SIG_SETMASK, &none, nil)
alarm(100)

func say(_ name: String, _ calls: counted_calls) {
  let first = withUnsafeBytes(of: calls.first) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
  print("\(name).allocations=\(calls.allocations)\n\(name).locks=\(calls.locks)")
  print("\(name).loader=\(calls.loader_calls)\n\(name).unwinder_locks=\(calls.unwinder_locks)\n\(name).first=\(first)")
}

/// A thread that computes in C and does nothing else, as one turn of a watched loop.
final class Computing: @unchecked Sendable {
  // SAFETY: the flag is written by one thread and read by another, in C, as volatile.
  private let flag = UnsafeMutablePointer<Int32>.allocate(capacity: 1)
  private let tid = Atomic<Int32>(0)
  private let counts = Atomic<Bool>(false)

  init(_ loop: WatchedLoop) {
    flag.pointee = 0
    let body = Unmanaged.passRetained(
      Box { [self] in
        loop.begin()
        tid.store(counted_calls_own_thread(), ordering: .releasing)
        while !counts.load(ordering: .acquiring) {}
        counted_calls_compute(flag)
        loop.end()
      }
    )
    var thread = pthread_t()
    pthread_create(
      &thread,
      nil,
      { context in
        // SAFETY: retained for this call above.
        if let context { Unmanaged<Box>.fromOpaque(context).takeRetainedValue().body() }
        return nil
      },
      body.toOpaque()
    )
  }

  /// Begins to count its calls; returns where.
  func count() -> Int32 {
    while tid.load(ordering: .acquiring) == 0 { usleep(1000) }
    // From here on it only looks at a flag.
    usleep(10_000)
    let place = counted_calls_begin(tid.load(ordering: .relaxed))
    counts.store(true, ordering: .releasing)
    return place
  }

  /// Ends its turn. What it calls then is not the handler's.
  func stop() { flag.pointee = 1 }

  private final class Box {
    let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
  }
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
// Somebody in code of which no rule is remembered.
let undescribed = workload_thread_start({ @Sendable _, stop in workload_without_unwind_information(.max, stop) }, nil)
// Twice, so that nothing which is done once is missed, and nothing that is done again.
let monitorPlace = counted_calls_begin(counted_calls_find("culprit-monitor"))
// The one at work is the first that was started.
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
say("handler", inHandler)
say("monitor", ofMonitor)
say("sampler", ofSampler)
say("recorder", ofRecorder)
watchdog.stop(patience: .seconds(10))

import Glibc
import Programs
import Synchronization

/// The other work of a service while some requests hang: answers, opening of sockets and files, starts of threads.
final class HealthyWork: Sendable {
  private let latencies = Mutex<[Double]>([])
  /// Keeps the work from being optimized away.
  private let checksum = Atomic<UInt64>(0)
  private let attempts = Atomic(0)
  private let failures = Atomic(0)

  /// Answers a request every 5 ms until `end`, each by a fixed amount of work.
  func answer(from begin: Double, until end: Double) {
    var due = begin
    while due < end {
      Service.wait(until: due)
      answer()
      let latency = Service.now - due
      latencies.withLock { $0.append(latency) }
      due += 0.005
    }
  }

  @inline(never)
  private func answer() {
    var value: UInt64 = 1
    for _ in 0..<200_000 { value = value &* 6_364_136_223_846_793_005 &+ 1 }
    checksum.store(value, ordering: .relaxed)
  }

  /// Opens a socket and a file and starts a thread every 5 ms until `end`. The last hundred sockets stay open.
  func operate(from begin: Double, until end: Double) {
    var due = begin
    var sockets: [Int32] = []
    while due < end {
      Service.wait(until: due)
      let socket = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
      let file = open("/proc/self/stat", O_RDONLY)
      var thread = pthread_t()
      let isStarted = pthread_create(&thread, nil, { _ in nil }, nil) == 0
      if isStarted { pthread_join(thread, nil) }
      attempts.add(3, ordering: .relaxed)
      failures.add([socket >= 0, file >= 0, isStarted].count { !$0 }, ordering: .relaxed)
      close(file)
      if socket >= 0 { sockets.append(socket) }
      if sockets.count > 100 { close(sockets.removeFirst()) }
      due += 0.005
    }
    for socket in sockets { close(socket) }
  }

  func printFacts() {
    let sorted = latencies.withLock { $0.sorted() }
    say("latency=\((sorted.isEmpty ? .infinity : sorted[sorted.count * 99 / 100]) * 1000)")
    say("operations=\(attempts.load(ordering: .relaxed))\nfailures=\(failures.load(ordering: .relaxed))")
  }
}

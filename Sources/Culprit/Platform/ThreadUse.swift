import CCulpritLinux
import Glibc
import Synchronization

/// Time spent in the signal handler, for all watchdogs of the process.
enum HandlerTime {
  static let total = Atomic<UInt64>(0)

  static func add(nanoseconds: UInt64) { total.wrappingAdd(nanoseconds, ordering: .relaxed) }

  /// Resets the total in a child of fork(2), before its first watchdog.
  static func startOver() { total.store(0, ordering: .relaxed) }
}

struct ThreadUse: Sendable {
  var cpuNanoseconds: UInt64 = 0
  /// Voluntary context switches: each ends with a wake-up.
  var wakeups: UInt64 = 0

  /// Reads the use so far; zero after the thread's end.
  init(of id: Int32) {
    cpuNanoseconds = clinux_clock_thread_cpu_ns(id)
    let label = "voluntary_ctxt_switches:"
    guard let status = ProcessMap.readAll("/proc/self/task/\(id)/status"),
      let line = status.split(separator: "\n").first(where: { $0.hasPrefix(label) })
    else { return }
    wakeups = UInt64(line.dropFirst(label.count).filter(\.isNumber)) ?? 0
  }

  init() {}

  static func ofCallingThread() -> Self {
    var use = Self()
    use.cpuNanoseconds = clinux_clock_thread_cpu_ns(clinux_task_self())
    var found = rusage()
    // RUSAGE_THREAD, which the C library declares only with _GNU_SOURCE.
    if getrusage(1, &found) == 0 { use.wakeups = UInt64(max(0, found.ru_nvcsw)) }
    return use
  }

  static func += (left: inout Self, right: Self) {
    left.cpuNanoseconds = left.cpuNanoseconds.saturatingSum(right.cpuNanoseconds)
    left.wakeups = left.wakeups.saturatingSum(right.wakeups)
  }
}

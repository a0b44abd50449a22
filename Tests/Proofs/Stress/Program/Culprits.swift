import Dispatch
import Glibc
import StressHarm
import Synchronization

/// Functions that stalls are blamed on.
enum Culprit: CaseIterable {
  case computing, reading, polling, sleeping, locking, first, plugin

  /// What reports call it.
  var function: String {
    switch self {
    case .computing: "computeForLong(_:)"
    case .reading: "waitInRead(_:)"
    case .polling: "waitInPoll(_:)"
    case .sleeping: "waitInSleep(until:)"
    case .locking: "waitForMutex(_:)"
    case .first: "computeFirst(_:)"
    case .plugin: "plugin_computes"
    }
  }

  /// All who may be called to blame for it. Where one library has followed another at the same addresses, Culprit believes
  /// neither, and blames who calls it.
  var functions: Set<String> { self == .plugin ? [function, "callPlugin(_:_:)"] : [function] }

  /// Who is not to blame, whatever a report says: what runs at other times, and what runs after the culprit.
  static func isInnocent(_ function: String) -> Bool {
    function == "computeAfterwards(_:)" || allCases.contains { $0.function == function }
  }

  /// Stalls for about so many nanoseconds. Returns whether it could.
  func stall(_ time: UInt64, _ tools: StallTools) -> Bool {
    switch self {
    case .computing: computeForLong(time)
    case .reading:
      tools.later(time) { tools.feed() }
      return waitInRead(tools.reading)
    case .polling:
      tools.later(time) { tools.feed() }
      waitInPoll(tools.reading)
      return waitInRead(tools.reading)
    case .sleeping: waitInSleep(until: stress_now_ns() + time)
    case .locking:
      tools.holdMutex(for: time)
      waitForMutex(tools.mutex)
    case .first:
      // Without the time in which the process is stopped, which is nobody's and would shift the shares.
      computeFirst(time / 5 * 4)
      computeAfterwards(time / 5)
    case .plugin: return tools.withPlugin { callPlugin($0, time) }
    }
    return true
  }
}

/// What a thread needs to be stalled.
final class StallTools: @unchecked Sendable {
  // SAFETY: the descriptors and the mutex are made at the beginning and used by calls that any thread may make.
  let reading: Int32
  private let writing: Int32
  let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let plugins: Plugins?
  private let number: Int
  private let helper = DispatchQueue(label: "helper")

  init(_ number: Int, _ plugins: Plugins?) {
    var ends: [Int32] = [0, 0]
    socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0, &ends)
    (reading, writing, self.number, self.plugins) = (ends[0], ends[1], number, plugins)
    pthread_mutex_init(mutex, nil)
  }

  /// Runs `body` on another thread after `time` nanoseconds.
  func later(_ time: UInt64, _ body: @escaping @Sendable () -> Void) {
    helper.asyncAfter(deadline: .now() + .nanoseconds(Int(time)), execute: body)
  }

  func feed() { _ = write(writing, "x", 1) }

  /// Has another thread hold the mutex for `time` nanoseconds. Returns when it does.
  func holdMutex(for time: UInt64) {
    let isHeld = DispatchSemaphore(value: 0)
    helper.async {
      pthread_mutex_lock(self.mutex)
      isHeld.signal()
      waitInSleep(until: stress_now_ns() + time)
      pthread_mutex_unlock(self.mutex)
    }
    isHeld.wait()
  }

  /// Loads a library, lets it work, and unloads it.
  func withPlugin(_ body: (Plugins.Function) -> Void) -> Bool {
    guard let plugins, let loaded = plugins.load("stall-\(number)") else { return false }
    body(loaded.function)
    // The file stays: what is gone by the time of the report has no names.
    plugins.unload(loaded, removes: false)
    return true
  }
}

let sink = Atomic<UInt64>(0)

// Each computes by itself: what they shared would be to blame.

@inline(never)
func computeForLong(_ time: UInt64) {
  let end = stress_running_ns() &+ time
  var value: UInt64 = 1
  while stress_running_ns() < end {
    var left = 20_000
    while left > 0 {
      value = value &* 6_364_136_223_846_793_005 &+ 1
      left &-= 1
    }
  }
  sink.store(value, ordering: .relaxed)
}

@inline(never)
func computeFirst(_ time: UInt64) {
  let end = stress_running_ns() &+ time
  var value: UInt64 = 2
  while stress_running_ns() < end {
    var left = 20_000
    while left > 0 {
      value = value &* 6_364_136_223_846_793_005 &+ 1
      left &-= 1
    }
  }
  sink.store(value, ordering: .relaxed)
}

@inline(never)
func computeAfterwards(_ time: UInt64) {
  let end = stress_running_ns() &+ time
  var value: UInt64 = 3
  while stress_running_ns() < end {
    var left = 20_000
    while left > 0 {
      value = value &* 6_364_136_223_846_793_005 &+ 1
      left &-= 1
    }
  }
  sink.store(value, ordering: .relaxed)
}

@inline(never)
func callPlugin(_ function: Plugins.Function, _ time: UInt64) {
  function(time)
  sink.store(6, ordering: .relaxed)
}

@inline(never)
func waitInRead(_ descriptor: Int32) -> Bool {
  var byte: UInt8 = 0
  while read(descriptor, &byte, 1) < 0 { guard errno == EINTR else { return false } }
  return byte == UInt8(ascii: "x")
}

@inline(never)
func waitInPoll(_ descriptor: Int32) {
  var entry = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
  while poll(&entry, 1, -1) <= 0 { sink.store(1, ordering: .relaxed) }
  sink.store(3, ordering: .relaxed)
}

@inline(never)
func waitInSleep(until end: UInt64) {
  while stress_now_ns() < end {
    let left = end &- min(stress_now_ns(), end)
    var time = timespec(tv_sec: Int(left / 1_000_000_000), tv_nsec: Int(left % 1_000_000_000))
    nanosleep(&time, nil)
  }
  sink.store(4, ordering: .relaxed)
}

@inline(never)
func waitForMutex(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) {
  pthread_mutex_lock(mutex)
  pthread_mutex_unlock(mutex)
  sink.store(5, ordering: .relaxed)
}

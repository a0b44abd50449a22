import CulpritStallRecord
import CulpritSymbols
import Foundation
import SimulatedClock
import Synchronization
import TestSupport
import TestWorkloads
import Testing

@testable import Culprit

typealias Mutex<Value: ~Copyable> = Synchronization.Mutex<Value>

/// The clock of the watchdog: simulated in suites with `.usesSimulatedClock`, the kernel's in others.
let clock = {
  Reporter.keptFiles = SharedFiles()
  return SimulatedClock()
}()

@inline(never)
func stallByComputing(for duration: Duration) {
  let end = clock.letPass(duration)
  var value: UInt64 = 1
  while clock.now < end { for _ in 0..<1000 { value = value &* 6_364_136_223_846_793_005 &+ 1 } }
  computed.store(value, ordering: .relaxed)
}

@inline(never)
func computeAfterwards(for duration: Duration) {
  let end = clock.letPass(duration)
  var value: UInt64 = 2
  while clock.now < end { for _ in 0..<1000 { value = value &* 3 &+ 1 } }
  computed.store(value, ordering: .relaxed)
}

@inline(never)
func stallByWaiting(for duration: Duration) {
  clock.block(for: duration)
  computed.wrappingAdd(1, ordering: .relaxed)
}

let computed = Atomic<UInt64>(0)

/// Runs `work` below `depth` recursive calls, for a distinct stack at every depth.
@inline(never)
func recurse(_ depth: Int, _ work: () -> Void) {
  if depth > 0 { recurse(depth - 1, work) } else { work() }
  computed.wrappingAdd(1, ordering: .relaxed)
}

/// Sleeps for 700 ms in one call. Sets `slept` to 1 if a signal interrupted the sleep, else to 0.
@inline(never)
func sleepOnce() {
  var left = timespec()
  var time = timespec(tv_sec: 0, tv_nsec: 700_000_000)
  slept = nanosleep(&time, &left) == 0 ? 0 : 1
}

nonisolated(unsafe) var slept = -1

final class Reports: Sendable {
  private let list = Mutex<[StallReport]>([])
  var all: [StallReport] { list.withLock { $0 } }
  func add(_ report: StallReport) { list.withLock { $0.append(report) } }
}

func stallFiles(in directory: String) -> [String] { fileNames(in: directory, ".stall").map { "\(directory)/\($0)" } }

func read(_ path: String) throws -> StallFile {
  try StallFile(bytes: [UInt8](Data(contentsOf: URL(fileURLWithPath: path))))
}

/// Returns the open files in the calling thread's descriptor table, with their paths.
func openFiles() throws -> [(descriptor: Int32, path: String)] {
  let directory = "/proc/thread-self/fd"
  return try FileManager.default.contentsOfDirectory(atPath: directory).compactMap { name in
    guard let number = Int32(name),
      let path = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(directory)/\(name)")
    else { return nil }
    return (number, path)
  }
}

func descriptor(of path: String) throws -> Int32 {
  try #require(openFiles().first { $0.path == path }).descriptor
}

/// Runs `body` on a thread with a private copy of the descriptor table, whose descriptors can be replaced.
/// The test is skipped where `unshare` is forbidden.
func withOwnDescriptors<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) throws -> Value {
  let result = Mutex<Result<Value, any Error>?>(nil)
  let isOver = DispatchSemaphore(value: 0)
  let thread = Thread {
    if workload_take_own_descriptors() {
      let found = Result { try body() }
      result.withLock { $0 = found }
    }
    isOver.signal()
  }
  thread.start()
  isOver.wait()
  guard let found = result.withLock({ $0 }) else { try Test.cancel("needs unshare(CLONE_FILES)") }
  return try found.get()
}

func isAsleep(_ id: pid_t) -> Bool {
  (try? String(contentsOfFile: "/proc/self/task/\(id)/stat", encoding: .utf8))?.contains(") S ") == true
}

let done = Atomic<Bool>(false)

final class Finished: Sendable {
  private let flag = Atomic<Bool>(false)
  var isSet: Bool { flag.load(ordering: .acquiring) }
  func set() { flag.store(true, ordering: .releasing) }
}

extension Watchdog {
  /// Stops with enough time to symbolize a test bundle on a busy machine.
  func stopPatiently() { stop(patience: .seconds(100)) }
}

extension Reports {
  final class Counts: Sendable {
    private let list = Mutex<[Int]>([])
    var all: [Int] { list.withLock { $0 } }
    func add(_ number: Int) { list.withLock { $0.append(number) } }
  }
}

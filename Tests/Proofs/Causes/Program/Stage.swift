import CauseWork
import Culprit
import Foundation
import Glibc
import Judges
import Synchronization

/// The environment of a scenario: a watchdog, which reports the stall, and a directory.
final class Stage: Sendable {
  let watchdog: Watchdog
  /// A new directory, which is removed at the end.
  let directory: String
  private let reports = Mutex<[StallReport]>([])
  private let measured = Mutex<CauseMeasures?>(nil)
  private let ending = NSLock()

  init(interval: Duration) throws {
    directory = "\(NSTemporaryDirectory())/causes-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(600), interval: interval))
    watchdog.onStall { [self] report in reports.withLock { $0.append(report) } }
  }

  /// Runs `work` as a turn of the loop "orders", on the calling thread.
  func turn(_ work: () -> Void) throws {
    let loop = try watchdog.watchLoop(named: "orders", scoped: true)
    loop.withTurn { measure(work) }
  }

  /// Runs `work` as a turn that never ends. The process finishes after 3 s.
  func endlessTurn(_ work: () -> Void) throws {
    finishLater()
    try watchdog.watchLoop(named: "orders", scoped: true).withTurn(work)
  }

  func finishLater() {
    Thread.detachNewThread { [self] in
      usleep(3_000_000)
      finish()
    }
  }

  /// Runs `work`, and records the thread's times during it.
  func measure(_ work: () -> Void) {
    let before = Self.times()
    work()
    let had = zip(Self.times(), before).map { $0 - $1 }
    measured.withLock { $0 = CauseMeasures(wallSeconds: had[0], cpuSeconds: had[1], delaySeconds: had[2]) }
  }

  /// Clock time, CPU time, and time runnable without a CPU of the calling thread, in seconds.
  private static func times() -> [Double] {
    [cause_now(), cause_processor_time(), cause_delay()].map { Double($0) / 1e9 }
  }

  /// Prints the measurements and the report, and ends the process.
  func finish() -> Never {
    // Never unlocked: a second caller waits for the end of the process.
    ending.lock()
    watchdog.stop(patience: .seconds(60))
    // Takes the longest stall, because the source might have stalled again briefly.
    guard let report = reports.withLock({ $0.max { $0.duration < $1.duration } }) else {
      leave(with: 1, saying: "causes-process: there was no report")
    }
    let measured = measured.withLock { $0 }
    print(measured.map { Self.json($0) } ?? "{}")
    print(Self.json(report))
    leave(with: 0)
  }

  func leave(with status: Int32, saying text: String? = nil) -> Never {
    if let text { FileHandle.standardError.write(Data("\(text)\n".utf8)) }
    try? FileManager.default.removeItem(atPath: directory)
    fflush(nil)
    _exit(status)
  }

  private static func json(_ value: some Encodable) -> String {
    (try? JSONEncoder().encode(value)).map { String(decoding: $0, as: UTF8.self) } ?? "{}"
  }
}

/// The time `seconds` from now, on the clock of `CauseWork`.
func until(_ seconds: Double) -> UInt64 { cause_now() + UInt64(seconds * 1e9) }

func onThread(_ name: String, _ body: @escaping @Sendable (_ begun: @Sendable () -> Void) -> Void) {
  let hasBegun = DispatchSemaphore(value: 0)
  let thread = Thread {
    try? name.write(toFile: "/proc/thread-self/comm", atomically: false, encoding: .utf8)
    body { hasBegun.signal() }
  }
  thread.start()
  hasBegun.wait()
}

func inTask(_ body: @escaping @Sendable () async -> Void) {
  let isOver = DispatchSemaphore(value: 0)
  Task.detached {
    await body()
    isOver.signal()
  }
  isOver.wait()
}

/// Modified after a function's last call, which the optimizer would otherwise turn into a jump without a frame.
let kept = Atomic(0)

func keep(_ number: Int) { kept.add(number, ordering: .relaxed) }

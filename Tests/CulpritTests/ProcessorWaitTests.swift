import CCulpritLinux
import CulpritStallRecord
import Foundation
import TestSupport
import TestWorkloads
import Testing

@testable import Culprit

/// Stalls on a busy or throttled CPU, in real CPU time.
@Suite(.serialized, .usesObserver) struct ProcessorWaitTests {
  @TemporaryDirectory private var directory: String

  private func reportOnBusyCPU(_ body: @escaping @Sendable () -> Void) throws -> StallReport {
    let reports = Reports()
    let watchdog = try Watchdog(Watchdog.Configuration(threshold: .milliseconds(400), interval: .milliseconds(50)))
    watchdog.onStall { reports.add($0) }
    let loop = try watchdog.watchLoop(named: "crowded")
    let isOver = DispatchSemaphore(value: 0)
    let thread = Thread {
      let crowd = workload_crowd_start(4)
      loop.withTurn(body)
      workload_crowd_stop(crowd)
      isOver.signal()
    }
    thread.start()
    isOver.wait()
    watchdog.stopPatiently()
    return try #require(reports.all.first)
  }

  @Test func reportsCPUShareOfComputingThread() throws {
    // Computes for 300 ms of CPU time, for enough samples even on a busy machine.
    let report = try reportOnBusyCPU {
      let enough = clinux_clock_thread_cpu_ns(clinux_task_self()) + 300_000_000
      while clinux_clock_thread_cpu_ns(clinux_task_self()) < enough {
        workload_spin(workload_now_ns() + 10_000_000, nil)
      }
    }
    let text = report.description.split(separator: "\n").map { $0.drop { $0 == " " } }.joined(separator: " ")
    #expect(text.contains("computing: on CPU "), "\(report)")
    #expect(text.contains(", runnable but waiting for a CPU "), "\(report)")
    #expect(!text.contains("waiting: on CPU "), "\(report)")
  }

  @Test func reportsSleepingThreadAsWaiting() throws {
    let report = try reportOnBusyCPU { workload_sleep(1_000_000_000) }
    #expect(report.description.contains("waiting: on CPU "), "\(report)")
    #expect(!report.description.contains("computing, but"), "\(report)")
  }

  @Test(.ownThread) func reportsThrottledServiceAsComputing() throws {
    guard let quota = Quota(microseconds: 20_000, of: 100_000) else {
      try Test.cancel("needs a control group with a CPU quota")
    }
    defer { quota.remove() }
    let process = try ChildProcess(
      ChildProcess.built("stalling-process"),
      ["quota", "computing", directory],
      meanwhile: { #expect(quota.add($0)) }
    )
    try #require(process.hasExited && process.status == 0, "\(process)")
    let text = process.output.split(separator: "\n").map { $0.drop { $0 == " " } }.joined(separator: " ")
    #expect(text.contains("CULPRIT   workload_spin"), "\(process.output)")
    #expect(text.contains("computing: on CPU "), "\(process.output)")
    #expect(!text.contains("waiting: on CPU "), "\(process.output)")
  }
}

private struct Quota {
  private var directory = ""

  init?(microseconds: Int, of period: Int) {
    let name = "culprit-test-\(UUID().uuidString)"
    for (root, files) in [
      ("/sys/fs/cgroup/cpu", [("cpu.cfs_period_us", "\(period)"), ("cpu.cfs_quota_us", "\(microseconds)")]),
      ("/sys/fs/cgroup", [("cpu.max", "\(microseconds) \(period)")]),
    ] {
      directory = "\(root)/\(name)"
      guard mkdir(directory, 0o755) == 0 else { continue }
      if files.allSatisfy({ Self.write($0.1, to: "\(root)/\(name)/\($0.0)") }) { return }
      rmdir(directory)
    }
    return nil
  }

  func add(_ id: pid_t) -> Bool { Self.write("\(id)", to: "\(directory)/cgroup.procs") }

  /// Removes the control group, which can stay busy for a moment after its processes have ended.
  func remove() { for _ in 0..<500 where rmdir(directory) != 0 && errno == EBUSY { usleep(10_000) } }

  private static func write(_ text: String, to path: String) -> Bool {
    let descriptor = open(path, O_WRONLY | O_CLOEXEC)
    guard descriptor >= 0 else { return false }
    defer { close(descriptor) }
    return Glibc.write(descriptor, text, text.utf8.count) == text.utf8.count
  }
}

import Foundation
import Synchronization
import Testing

/// Runs each test on a dedicated thread, which can block for a child, a pipe, or a lock. All other tests share a pool
/// with one thread per core. A few blocked tests would stop the run.
///
/// `.usesObserver` must precede `.ownThread`, because a test that waits for the observer must not occupy a dedicated
/// thread.
package struct OwnThread: SuiteTrait, TestTrait, TestScoping {
  /// Whether the current test runs on its own thread.
  @TaskLocal package static var isCurrent = false

  package var isRecursive: Bool { true }

  package func provideScope(
    for test: Test,
    testCase: Test.Case?,
    performing body: @Sendable () async throws -> Void
  ) async throws {
    guard testCase != nil, !Self.isCurrent else { return try await body() }
    await places.take()
    defer { places.pass() }
    let executor = ThreadExecutor()
    Thread.detachNewThread { executor.run() }
    defer { executor.stop() }
    try await Self.$isCurrent.withValue(true) {
      try await withTaskExecutorPreference(executor) { try await body() }
    }
  }
}

extension Trait where Self == OwnThread {
  /// The test blocks its thread, for example because it waits for a child.
  package static var ownThread: OwnThread { OwnThread() }
}

/// More tests run than there are cores, because most children sleep or wait.
private let places = Turns(count: 2 + 2 * ProcessInfo.processInfo.activeProcessorCount)

/// Runs the jobs of one task on the thread that calls `run()`.
private final class ThreadExecutor: TaskExecutor {
  private struct State {
    var jobs: [UnownedJob] = []
    var isStopped = false
  }
  private let state = Mutex(State())
  private let wakeUps = DispatchSemaphore(value: 0)

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    state.withLock { $0.jobs.append(job) }
    wakeUps.signal()
  }

  /// Runs jobs until `stop()`.
  func run() {
    while true {
      wakeUps.wait()
      let (job, isStopped) = state.withLock { ($0.jobs.isEmpty ? nil : $0.jobs.removeFirst(), $0.isStopped) }
      if let job { job.runSynchronously(on: asUnownedTaskExecutor()) } else if isStopped { return }
    }
  }

  /// Ends the thread once all jobs have run.
  func stop() {
    state.withLock { $0.isStopped = true }
    wakeUps.signal()
  }
}

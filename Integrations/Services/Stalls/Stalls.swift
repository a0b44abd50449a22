import Culprit
import Foundation

/// The requests of each service, besides `loop` and `metrics`.
///
/// `echo` and `patient` are healthy. Other requests exceed their thresholds: 500 ms for requests, 1.5 s for jobs.
public let requests = ["echo", "patient", "section", "job", "lock", "query", "pool"]

/// Answers `request`, one of ``requests`` or `metrics`. The caller must watch the request.
///
/// - Parameters:
///   - request: The request.
///   - watchdog: The watchdog of the service.
///   - pool: The pool of `query` and `pool`.
/// - Returns: The metrics, or `request`.
/// - Throws: The errors of the pool, and cancellation.
public func answer(
  _ request: String,
  _ watchdog: Watchdog,
  pool: any ConnectionPool = ActorPool.shared
) async throws -> String {
  switch request {
  case "patient": try await Task.sleep(for: .seconds(1))
  case "section": stallTheSection()
  case "job": Task.detached { stallTheJob() }
  case "lock": stallAtTheLock()
  case "query": try await pool.runTheQuery()
  case "pool":
    // The client sends `query`, which takes the connection, at the same time.
    while await !pool.isTaken { try await Task.sleep(for: .milliseconds(5)) }
    try await pool.waitForTheConnection()
  case "metrics": return watchdog.metrics.prometheusText()
  default: break
  }
  return request + "\n"
}

/// The threshold of `request`.
public func threshold(of request: String) -> Duration { request == "patient" ? .seconds(30) : .milliseconds(500) }

/// Blocks an event loop for a second.
@inline(never) public func stallTheLoop() { Thread.sleep(forTimeInterval: 1) }

@inline(never) private func stallTheSection() { Thread.sleep(forTimeInterval: 1) }

@inline(never) private func stallTheJob() { Thread.sleep(forTimeInterval: 3) }

private let lock = NSLock()

@inline(never) private func stallAtTheLock() {
  let isHeld = DispatchSemaphore(value: 0)
  Thread.detachNewThread { holdTheLock(isHeld) }
  isHeld.wait()
  waitForTheLock()
}

@inline(never) private func holdTheLock(_ isHeld: DispatchSemaphore) {
  lock.withLock {
    isHeld.signal()
    Thread.sleep(forTimeInterval: 1)
  }
}

@inline(never) private func waitForTheLock() { lock.withLock {} }

import Culprit
import Foundation
import Testing

/// Tests that run one at a time, because a process has one observer, and tests start and stop watches.
@Suite(.serialized) enum SerialTests {}

/// Blocks the calling thread until `isDone` is true. Tests expect this function as the culprit.
@inline(never) func blockUntil(_ isDone: () -> Bool) { while !isDone() { Thread.sleep(forTimeInterval: 0.005) } }

/// Blocks the calling thread until `semaphore` is signaled.
@inline(never) func blockOn(_ semaphore: DispatchSemaphore) { semaphore.wait() }

extension Watchdog {
  /// Calls `body` when the stall of the source `name` begins.
  func onStallBegan(of name: String, _ body: @escaping @Sendable () -> Void) {
    onStallBegan { if $0.source.name == name { body() } }
  }

  /// Blocks a section called `name` until its stall has begun.
  func stallSection(_ name: String) {
    let semaphore = DispatchSemaphore(value: 0)
    onStallBegan(of: name) { semaphore.signal() }
    withSection(name, threshold: .seconds(1)) { blockOn(semaphore) }
  }
}

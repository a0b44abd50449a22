import Culprit
import Foundation
import Testing

/// Tests that run one at a time: a process has one observer, and each test starts and stops watches.
@Suite(.serialized) enum SerialTests {}

/// Blocks the calling thread until `isDone`. Its name is the culprit that tests expect.
@inline(never) func blockUntil(_ isDone: () -> Bool) { while !isDone() { Thread.sleep(forTimeInterval: 0.005) } }

/// Blocks the calling thread until `semaphore` is signaled.
@inline(never) func blockOn(_ semaphore: DispatchSemaphore) { semaphore.wait() }

extension Watchdog {
  /// Calls `body` when the stall of the source `name` begins.
  func onStallBegan(of name: String, _ body: @escaping @Sendable () -> Void) {
    onStallBegan { if $0.source.name == name { body() } }
  }

  /// Blocks a section of this name until its stall has begun.
  func stallSection(_ name: String) {
    let semaphore = DispatchSemaphore(value: 0)
    onStallBegan(of: name) { semaphore.signal() }
    withSection(name, threshold: .seconds(1)) { blockOn(semaphore) }
  }
}

import Culprit
import Foundation

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
    withSection(name, threshold: .milliseconds(200)) { blockOn(semaphore) }
  }
}

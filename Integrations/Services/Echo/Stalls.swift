import Foundation

/// Blocks an event loop for a second.
@inline(never) public func stallTheLoop() { Thread.sleep(forTimeInterval: 1) }

/// Blocks a request for a second.
@inline(never) public func stallTheSection() { Thread.sleep(forTimeInterval: 1) }

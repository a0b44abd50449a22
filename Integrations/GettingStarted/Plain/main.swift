// A loop that handles the lines of standard input.

import Foundation

@inline(never) func rebuildTheIndex() { Thread.sleep(forTimeInterval: 5) }

func poll() -> String? { readLine() }
func handle(_ events: String) { if events == "stall" { rebuildTheIndex() } }

// Culprit
while let events = poll() {
  handle(events)
}

import Culprit
import CulpritStallRecord
import Glibc
import Synchronization

/// A backend that answers no request before it recovers.
private final class Backend: Sendable {
  private let waiting = Mutex<[CheckedContinuation<Void, Never>]?>([])

  @inline(never)
  func query() async {
    await withCheckedContinuation { continuation in
      let isRecovered = waiting.withLock { waiting in
        waiting?.append(continuation)
        return waiting == nil
      }
      if isRecovered { continuation.resume() }
    }
  }

  func recover() {
    let answered = waiting.withLock { waiting in
      defer { waiting = nil }
      return waiting ?? []
    }
    for continuation in answered { continuation.resume() }
  }
}

@inline(never)
private func rebuildCatalogue(until isDone: () -> Bool) { while !isDone() { usleep(5_000) } }

private func stalls(_ watchdog: Watchdog, _ name: String) -> (begun: Int, ended: Int) {
  let found = watchdog.metrics.sources.filter { $0.source.name == name }
  return (found.reduce(0) { $0 + Int($1.stalls) }, found.reduce(0) { $0 + Int($1.stallDurations.count) })
}

/// Returns the number of stalls of the source `name` that the files in `directory` record or count.
private func saved(in directory: String?, _ name: String) -> Int {
  savedStalls(in: directory).flatMap { (try? StallFile(bytes: $0))?.recording.stalls ?? [] }
    .reduce(0) { $0 + ($1.source.name == name ? 1 + ($1.count?.unrecorded ?? 0) : 0) }
}

/// Ends the process while many requests are late and a loop is stuck: `storm WAY COUNT [DIRECTORY]`.
@Sendable func storm(_ arguments: [String]) throws {
  let way = arguments.first ?? ""
  let count = arguments.dropFirst().first.flatMap { Int($0) } ?? 100
  let directory = arguments.dropFirst(2).first
  let watchdog = try Watchdog(threshold: .milliseconds(400), directory: directory)
  let isLoopStuck = Atomic(false)
  watchdog.onStallBegan { event in
    if event.source.kind == .loop { isLoopStuck.store(true, ordering: .releasing) }
  }
  let backend = Backend()
  for _ in 0..<count {
    Task { await watchdog.withSection("request", threshold: .milliseconds(400)) { await backend.query() } }
  }
  while stalls(watchdog, "request").begun < count { usleep(10_000) }
  if way == "recovered" {
    backend.recover()
    while stalls(watchdog, "request").ended < count { usleep(10_000) }
    while !watchdog.stop(patience: .seconds(60)) {}
    exit(0)
  }
  let loop = try watchdog.watchLoop(named: "accept")
  loop.begin()
  rebuildCatalogue { isLoopStuck.load(ordering: .acquiring) }
  if way == "kill" {
    rebuildCatalogue { saved(in: directory, "request") == count && saved(in: directory, "accept") == 1 }
    kill(getpid(), SIGKILL)
  }
  if way == "terminate" { kill(getpid(), SIGTERM) }
  exit(0)
}

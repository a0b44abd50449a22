import Glibc
import Programs
import Synchronization

extension Scenario {
  func runLetGo(on stage: Stage) throws {
    let watch = try stage.watchdog.watchConcurrency()
    say("refused=\((try? stage.watchdog.watchConcurrency()) == nil)")
    usleep(300_000)
    Task.detached { while !isLetGo.load(ordering: .relaxed) {} }
    var watched = 0
    while watched == 0 {
      // The task can be between two jobs.
      for _ in 0..<100 where watched < 2 {
        usleep(10_000)
        watched = max(watched, watchpoints())
      }
      for limitation in stage.watchdog.status.limitations { say("limited=\(limitation.code)") }
      if stage.watchdog.status.limitations.contains(where: { $0.code == .computingJobs }) { break }
    }
    watch.stop()
    while watchpoints() != 0 { usleep(10_000) }
    say("watched=\(watched)\nleft=\(watchpoints())")
    isLetGo.store(true, ordering: .relaxed)
  }
}

private let isLetGo = Atomic(false)

/// Returns the number of perf events that the process has mapped.
private func watchpoints() -> Int {
  guard let file = fopen("/proc/self/maps", "re") else { return 0 }
  defer { fclose(file) }
  var (line, size) = (UnsafeMutablePointer<CChar>?.none, 0)
  defer { free(line) }
  var count = 0
  while getline(&line, &size, file) >= 0 {
    // SAFETY: getline has stored a string.
    if let line, strstr(line, "[perf_event]") != nil { count += 1 }
  }
  return count
}

import Culprit
import Dispatch
import Glibc
import Programs
import Synchronization

private let kept = Atomic(0)

@inline(never) private func occupyThread(_ end: DispatchSemaphore) {
  end.wait()
  kept.add(1, ordering: .relaxed)
}

@inline(never) private func awaitReply() async {
  await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in kept.add(1, ordering: .relaxed) }
  kept.add(1, ordering: .relaxed)
}

/// Suspends sections, begins an activity, and blocks every thread of Swift's pool: `control SECTIONS [BYSTANDERS] [pool]`.
/// At least one bystander thread waits for a lock of the main thread, which waits for standard input. With `pool`, the
/// pool is watched.
@Sendable func beControlled(_ arguments: [String]) throws {
  let watchdog = try Watchdog(Watchdog.Configuration(threshold: .seconds(50)))
  let sections = count(arguments)
  let bystanders = arguments.count > 1 ? Int(arguments[1]) ?? 0 : 0
  let begun = DispatchSemaphore(value: 0)
  for number in 0..<sections {
    Task.detached {
      await watchdog.withRequest(label: "GET /orders/\(number)", threshold: .seconds(50)) {
        begun.signal()
        await awaitReply()
      }
    }
  }
  for _ in 0..<sections { begun.wait() }
  // Task states are known once a task of the watchdog has run.
  while sections > 0, try !watchdog.dump().work.contains(where: { $0.activity.kind == .suspended }) {}
  let upload = try watchdog.beginActivity("upload")
  let threads = max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)))
  let end = DispatchSemaphore(value: 0)
  for _ in 0..<threads {
    Task.detached {
      begun.signal()
      occupyThread(end)
    }
  }
  for _ in 0..<threads { begun.wait() }
  let lock = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  pthread_mutex_init(lock, nil)
  pthread_mutex_lock(lock)
  nonisolated(unsafe) let held = lock
  for _ in 0..<max(1, bystanders) {
    startThread {
      begun.signal()
      pthread_mutex_lock(held)
    }
    begun.wait()
  }
  if arguments.contains("pool") { _ = try watchdog.watchConcurrency(threshold: .seconds(20)) }
  say("ready")
  if arguments.contains("in-process") { say("\(try watchdog.dump())") }
  var byte: UInt8 = 0
  _ = read(STDIN_FILENO, &byte, 1)
  upload.end()
  for problem in watchdog.status.problems { say("problem=\(problem)") }
  watchdog.stop(patience: .seconds(60))
  // The other threads are still blocked.
  _exit(0)
}

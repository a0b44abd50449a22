import CCulpritLinux
import Glibc
import Programs
import Synchronization

/// The lock that the loop `lock` waits for.
private nonisolated(unsafe) let ledger: UnsafeMutablePointer<pthread_mutex_t> = {
  let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  mutex.initialize(to: pthread_mutex_t())
  pthread_mutex_init(mutex, nil)
  return mutex
}()

@inline(never)
@Sendable func rebuildCatalogue(until time: Double) {
  var value: UInt64 = 1
  while Service.now < time { for _ in 0..<10_000 { value = value &* 6_364_136_223_846_793_005 &+ 1 } }
  result.store(value, ordering: .relaxed)
}

@inline(never)
@Sendable func sleepOnDisk(until time: Double) {
  while Service.now < time { usleep(UInt32(max(1, (time - Service.now) * 1e6))) }
}

@inline(never)
@Sendable func waitForLedger(until time: Double) {
  pthread_mutex_lock(ledger)
  pthread_mutex_unlock(ledger)
}

/// Holds the lock from `time` until the loop's stall is over.
@inline(never)
func writeLedger(from time: Double) {
  Service.wait(until: time)
  pthread_mutex_lock(ledger)
  Service.wait(until: time + 0.1 + Service.stall)
  pthread_mutex_unlock(ledger)
}

/// Keeps the work from being optimized away.
private let result = Atomic<UInt64>(0)

final class NamedThread: @unchecked Sendable {
  // SAFETY: written by the initializer only.
  private let thread: pthread_t

  init(_ name: String, _ body: @escaping @Sendable () -> Void) {
    thread = startThread {
      clinux_task_set_name(name)
      body()
    }
  }

  func join() { pthread_join(thread, nil) }
}

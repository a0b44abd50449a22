import CCulpritLinux
import Glibc
import Testing

/// Waits for a change of a word, and locks that consist of one word.
@Suite struct WaitingTests {
  @Test func returnsAtOnceAfterNotification() {
    let wakeup = Shared(clinux_wakeup())
    let seen = clinux_wakeup_seen(wakeup.pointer)
    clinux_wakeup_notify(wakeup.pointer)
    #expect(clinux_wakeup_seen(wakeup.pointer) == seen + 1)
    // Without an immediate return, these calls would block forever.
    clinux_wakeup_wait(wakeup.pointer, seen, .max)
    clinux_wakeup_wait(wakeup.pointer, seen + 1, clinux_clock_ns())
    clinux_wakeup_wait(wakeup.pointer, seen + 1, 1)
  }

  /// A wait ends at a wakeup or at its deadline.
  @Test func waitsUntilDeadline() {
    let wakeup = Shared(clinux_wakeup())
    for time: UInt64 in [1_000_000, 999_999_999, 1_000_000_001] where time < 1_500_000_000 {
      let deadline = clinux_clock_ns() + time
      // A signal can end the wait early.
      for _ in 0..<100 where clinux_clock_ns() < deadline { clinux_wakeup_wait(wakeup.pointer, 0, deadline) }
      #expect(clinux_clock_ns() >= deadline)
    }
  }

  @Test func wakesAllWaiters() {
    let wakeup = Shared(clinux_wakeup())
    let threads = (0..<4)
      .map { _ in
        RunningThread {
          while !clinux_wakeup_stopping(wakeup.pointer) {
            let seen = clinux_wakeup_seen(wakeup.pointer)
            if clinux_wakeup_stopping(wakeup.pointer) { return }
            clinux_wakeup_wait(wakeup.pointer, seen, .max)
          }
        }
      }
    usleep(20_000)
    clinux_wakeup_notify(wakeup.pointer)
    #expect(!clinux_wakeup_stopping(wakeup.pointer))
    clinux_wakeup_stop(wakeup.pointer)
    for thread in threads { thread.join() }
    #expect(clinux_wakeup_stopping(wakeup.pointer))
  }

  @Test func preservesErrno() {
    let wakeup = Shared(clinux_wakeup())
    errno = 4711
    clinux_wakeup_wait(wakeup.pointer, 0, 1)
    clinux_wakeup_notify(wakeup.pointer)
    #expect(errno == 4711)
  }

  @Test func lockHasSingleOwner() {
    let lock = Shared(clinux_lock())
    #expect(!clinux_lock_is_taken(lock.pointer) && clinux_lock_try(lock.pointer))
    #expect(clinux_lock_is_taken(lock.pointer) && !clinux_lock_try(lock.pointer))
    clinux_lock_release(lock.pointer)
    #expect(!clinux_lock_is_taken(lock.pointer))
    clinux_lock_take(lock.pointer)
    #expect(!clinux_lock_try(lock.pointer))
    clinux_lock_release(lock.pointer)
    #expect(clinux_lock_try(lock.pointer))
  }

  /// Four threads increment a counter under the lock. No increment is lost, and no thread blocks forever.
  @Test func lockExcludesOtherThreads() {
    let lock = Shared(clinux_lock())
    let counter = Shared(0)
    let threads = (0..<4)
      .map { _ in
        RunningThread {
          for number in 0..<5000 {
            clinux_lock_take(lock.pointer)
            let value = counter.pointer.pointee
            if number % 500 == 0 { sched_yield() }
            counter.pointer.pointee = value + 1
            clinux_lock_release(lock.pointer)
          }
        }
      }
    for thread in threads { thread.join() }
    #expect(counter.pointer.pointee == 20_000 && !clinux_lock_is_taken(lock.pointer))
  }

  /// Threads sleep until the lock is released. All of them must then acquire the lock.
  @Test func releaseWakesSleepingWaiters() {
    let lock = Shared(clinux_lock())
    let counter = Shared(0)
    clinux_lock_take(lock.pointer)
    let threads = (0..<4)
      .map { _ in
        RunningThread {
          clinux_lock_take(lock.pointer)
          counter.pointer.pointee += 1
          usleep(5000)
          clinux_lock_release(lock.pointer)
        }
      }
    usleep(50_000)
    #expect(counter.pointer.pointee == 0)
    clinux_lock_release(lock.pointer)
    for thread in threads { thread.join() }
    #expect(counter.pointer.pointee == 4 && !clinux_lock_is_taken(lock.pointer))
  }

  /// Locks that threads of the parent process held are free after a fork.
  @Test func lockOfParentProcessIsFree() {
    let own = clinux_process_stamp()
    #expect(own != 0 && clinux_process_stamp() == own)
    #expect(clinux_process_is(own) && !clinux_process_is(own &+ 1) && !clinux_process_is(0))
    for state: UInt32 in [1, 3] {
      for stamp in [own &+ 1, own &- 1] {
        let lock = Shared(clinux_lock())
        // The lock consists of this word.
        UnsafeMutableRawPointer(lock.pointer).storeBytes(of: stamp << 2 | state, as: UInt32.self)
        #expect(clinux_lock_is_taken(lock.pointer) && clinux_lock_try(lock.pointer))
        #expect(!clinux_lock_try(lock.pointer))
        clinux_lock_release(lock.pointer)
      }
      let held = Shared(clinux_lock())
      UnsafeMutableRawPointer(held.pointer).storeBytes(of: own << 2 | state, as: UInt32.self)
      #expect(!clinux_lock_try(held.pointer))
    }
  }

  @Test func clocksMatchKernel() {
    func time(_ clock: clockid_t) -> UInt64 {
      var now = timespec()
      clock_gettime(clock, &now)
      return UInt64(now.tv_sec) * 1_000_000_000 + UInt64(now.tv_nsec)
    }
    for (own, clock) in [
      (clinux_clock_ns, CLOCK_MONOTONIC), (clinux_clock_boot_ns, CLOCK_BOOTTIME),
      (clinux_clock_wall_ns, CLOCK_REALTIME),
      (clinux_clock_coarse_ns, CLOCK_MONOTONIC_COARSE),
    ] as [(() -> UInt64, clockid_t)] {
      let before = time(clock)
      let now = own()
      #expect((before...time(clock)).contains(now), "\(clock)")
    }
    let before = time(CLOCK_THREAD_CPUTIME_ID)
    let used = clinux_clock_thread_cpu_ns(clinux_task_self())
    #expect((before...time(CLOCK_THREAD_CPUTIME_ID)).contains(used))
    #expect(clinux_clock_thread_cpu_ns(1 << 28) == 0)
    #expect((1_000_000...10_000_000).contains(clinux_clock_coarse_resolution_ns()))
    #expect(clinux_clock_coarse_error_ns() == 2 * clinux_clock_coarse_resolution_ns())
  }
}

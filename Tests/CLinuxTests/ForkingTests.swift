import CCulpritLinux
import Glibc
import Synchronization
import TestWorkloads
import Testing

/// Forks wait until registered threads rest or yield.
@Suite(.serialized) struct ForkingTests {
  init() { clinux_fork_start() }

  /// Two words for each registered thread: `begun` changes before its work, `done` after its work.
  private struct Words {
    var begun: InlineArray<3, UInt64> = [0, 0, 0]
    var done: InlineArray<3, UInt64> = [0, 0, 0]
  }

  private final class Outcome: Sendable {
    let value = Atomic<Int32>(-1)
  }

  /// Runs `body` in a child. Returns the result of `body`, or 100 if the child was killed, and whether the fork waited
  /// for all working threads. `body` must call only C, because other threads can hold locks of the Swift runtime.
  private func inChild(_ body: () -> Int32) -> (outcome: Int32, hasWaited: Bool) {
    let impatient = clinux_fork_impatient_count()
    let child = workload_plain_fork()
    let hasWaited = clinux_fork_impatient_count() == impatient
    if child == 0 {
      _ = clinux_mask_set(0)
      alarm(20)
      _exit(body())
    }
    var status: Int32 = 0
    while waitpid(child, &status, 0) < 0, errno == EINTR {}
    return (status & 127 == 0 ? status >> 8 : 100, hasWaited)
  }

  /// Threads change pairs of words. Each child must see both changes of a pair, or neither.
  @Test(arguments: [false, true]) func childSeesNoPartialWork(_ yields: Bool) {
    let count = 3
    let words = Shared(Words())
    let isOver = Shared(clinux_wakeup())
    let threads = (0..<count)
      .map { number in
        RunningThread {
          clinux_fork_enter()
          defer { clinux_fork_leave() }
          while !clinux_wakeup_stopping(isOver.pointer) {
            words.pointer.pointee.begun[number] &+= 1
            for _ in 0..<20_000 { _ = clinux_clock_ns() }
            words.pointer.pointee.done[number] &+= 1
            if yields {
              clinux_fork_yield()
            } else if clinux_fork_rest() {
              _ = clinux_fork_work()
            }
          }
        }
      }
    let bytes = MemoryLayout<InlineArray<3, UInt64>>.size
    let begun = UnsafeRawPointer(words.pointer)
    var outcomes: Set<Int32> = []
    for _ in 0..<40 {
      let (outcome, hasWaited) = inChild { memcmp(begun, begun + bytes, bytes) == 0 ? 0 : 1 }
      // On a busy machine, a thread might work for longer than a fork waits.
      if hasWaited { outcomes.insert(outcome) }
    }
    clinux_wakeup_stop(isOver.pointer)
    for thread in threads { thread.join() }
    #expect(outcomes == [0])
    for number in 0..<count { #expect(words.pointer.pointee.done[number] > 0) }
  }

  /// A fork waits only briefly for a stuck thread, and not at all for resting or ended threads.
  @Test func forkDoesNotWaitForStuckThreads() {
    let (isWorking, isOver) = (Shared(clinux_wakeup()), Shared(clinux_wakeup()))
    func wait(for wakeup: Shared<clinux_wakeup>) {
      while !clinux_wakeup_stopping(wakeup.pointer) {
        clinux_wakeup_wait(wakeup.pointer, clinux_wakeup_seen(wakeup.pointer), clinux_clock_ns() + 50_000_000)
      }
    }
    let stuck = RunningThread {
      clinux_fork_enter()
      clinux_wakeup_stop(isWorking.pointer)
      wait(for: isOver)
      clinux_fork_leave()
    }
    let resting = RunningThread {
      clinux_fork_enter()
      _ = clinux_fork_rest()
      wait(for: isOver)
      _ = clinux_fork_work()
      clinux_fork_leave()
    }
    wait(for: isWorking)
    #expect(inChild { 7 } == (7, false))
    #expect(inChild { 8 } == (8, false))
    clinux_wakeup_stop(isOver.pointer)
    stuck.join()
    resting.join()
    #expect(inChild { 9 } == (9, true))
  }

  /// A registered thread completes its work while other threads fork continuously.
  @Test func continuousForksDoNotStarveThreads() {
    let (isOver, steps) = (Shared(clinux_wakeup()), Shared(clinux_wakeup()))
    let forking = (0..<2)
      .map { _ in
        RunningThread {
          while !clinux_wakeup_stopping(isOver.pointer) { _ = inChild { 0 } }
        }
      }
    let working = RunningThread {
      clinux_fork_enter()
      for _ in 0..<50_000 {
        clinux_fork_yield()
        clinux_wakeup_notify(steps.pointer)
      }
      clinux_fork_leave()
    }
    working.join()
    clinux_wakeup_stop(isOver.pointer)
    for thread in forking { thread.join() }
    #expect(clinux_wakeup_seen(steps.pointer) == 50_000)
  }

  @Test func registeredThreadsCanFork() {
    let outcome = Outcome()
    RunningThread {
      clinux_fork_enter()
      let found = inChild {
        // The parent's registration does not extend to the child.
        if clinux_fork_rest() { return 1 }
        clinux_fork_enter()
        guard clinux_fork_rest() else { return 2 }
        _ = clinux_fork_work()
        let grandchild = workload_plain_fork()
        if grandchild == 0 { _exit(0) }
        var status: Int32 = 0
        waitpid(grandchild, &status, 0)
        clinux_fork_leave()
        return status == 0 ? 0 : 3
      }
      outcome.value.store(found.hasWaited ? found.outcome : 4, ordering: .relaxed)
      clinux_fork_leave()
    }
    .join()
    #expect(outcome.value.load(ordering: .relaxed) == 0)
  }
}

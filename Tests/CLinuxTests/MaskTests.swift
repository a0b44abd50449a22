import CCulpritLinux
import Glibc
import Synchronization
import TestWorkloads
import Testing

/// Signal masks of threads, and writes that do not raise SIGPIPE.
@Suite struct MaskTests {
  private func bit(_ signal: Int32) -> UInt64 { 1 << UInt64(signal - 1) }

  /// Runs `body` on a new thread, whose mask affects no other code.
  private func onThread(_ body: @escaping () -> Void) { RunningThread(body).join() }

  private func ask(_ signal: Int32, of thread: Int32 = clinux_task_self()) -> clinux_mask_answer {
    var sleeps: UInt64 = 0
    return clinux_mask_ask(thread, signal, &sleeps)
  }

  @Test func countsSleeps() {
    onThread {
      var (before, after): (UInt64, UInt64) = (0, 0)
      _ = clinux_mask_ask(clinux_task_self(), SIGTERM, &before)
      for _ in 0..<3 { usleep(1) }
      _ = clinux_mask_ask(clinux_task_self(), SIGTERM, &after)
      #expect(after >= before + 3)
    }
  }

  /// A thread that blocks SIGPROF accepts it only within `sigtimedwait` and `pselect`, which does not count.
  @Test func knowsMaskOfSleepingThread() {
    final class State: Sendable {
      let tid = Atomic<Int32>(0)
      let isDone = Atomic<Bool>(false)
    }
    for isBlocked in [false, true] {
      let state = State()
      let prof = bit(SIGPROF)
      let thread = RunningThread {
        let before = clinux_mask_get()
        _ = clinux_mask_set(isBlocked ? before | prof : before & ~prof)
        var (set, none) = (sigset_t(), sigset_t())
        sigaddset(&set, SIGPROF)
        sigemptyset(&none)
        state.tid.store(clinux_task_self(), ordering: .sequentiallyConsistent)
        while !state.isDone.load(ordering: .sequentiallyConsistent) {
          usleep(2000)
          guard isBlocked else { continue }
          var pause = timespec(tv_sec: 0, tv_nsec: 2_000_000)
          _ = sigtimedwait(&set, nil, &pause)
          _ = pselect(0, nil, nil, nil, &pause, &none)
        }
      }
      var tid: Int32 = 0
      while tid == 0 { tid = state.tid.load(ordering: .sequentiallyConsistent) }
      var isLetIn = false
      for _ in 0..<(isBlocked ? 500 : 100_000) where !isLetIn {
        isLetIn = clinux_mask_lets_in_asleep(tid, SIGPROF)
        usleep(50)
      }
      #expect(isLetIn == !isBlocked)
      state.isDone.store(true, ordering: .sequentiallyConsistent)
      thread.join()
    }
    #expect(!clinux_mask_lets_in_asleep(clinux_task_self(), SIGPROF) && !clinux_mask_lets_in_asleep(1 << 29, SIGPROF))
  }

  @Test func readsMaskThatWasSet() {
    onThread {
      let before = clinux_mask_get()
      let mask = bit(SIGUSR1) | bit(SIGTERM) | bit(64)
      #expect(clinux_mask_set(mask) == before && clinux_mask_get() == mask)
      var seen: UInt64 = 0
      #expect(clinux_mask_of_thread(clinux_task_self(), &seen) && seen == mask)
      for signal: Int32 in 1...64 {
        #expect(
          (ask(signal) == CLINUX_MASK_KEEPS_OUT) == (mask & bit(signal) != 0),
          "\(signal)"
        )
      }
      // The C library never blocks its own signals, and the kernel ignores SIGKILL and SIGSTOP.
      _ = clinux_mask_set(.max)
      #expect(clinux_mask_get() == ~(bit(32) | bit(33) | bit(SIGKILL) | bit(SIGSTOP)))
      #expect(clinux_mask_set(before) != before)
    }
  }

  /// Users from a directory service can have many groups. The status file lists the groups before the mask.
  @Test(.enabled(if: getuid() == 0, "only root can set its groups"), arguments: [280, 330, 400, 6000, 65536])
  func readsMaskBehindManyGroups(count: Int32) {
    onThread {
      #expect(workload_be_in_groups(count))
      let before = clinux_mask_set(bit(SIGUSR2))
      var seen: UInt64 = 0
      #expect(clinux_mask_of_thread(clinux_task_self(), &seen) && seen == bit(SIGUSR2))
      #expect(ask(SIGUSR2) == CLINUX_MASK_KEEPS_OUT)
      // The calling thread runs, so it does not wait for the signal.
      #expect(ask(SIGUSR1) == CLINUX_MASK_LETS_IN)
      var text = [CChar](repeating: 0, count: 4096)
      let length = clinux_task_read_status(clinux_task_self(), &text, text.count)
      let status = String(decoding: text.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
      #expect(status.hasPrefix("Name:\t") && status.contains("\nState:\tR"))
      #expect(status.hasSuffix("\n") && status.contains("\nnonvoluntary_ctxt_switches:\t"))
      _ = clinux_mask_set(before)
    }
  }

  @Test func missingThreadHasNoMask() {
    var mask: UInt64 = 7
    #expect(!clinux_mask_of_thread(1 << 29, &mask) && ask(SIGTERM, of: 1 << 29) != CLINUX_MASK_KEEPS_OUT)
    errno = 4711
    _ = clinux_mask_of_thread(1 << 29, &mask)
    #expect(errno == 4711)
  }

  @Test func ownThreadsBlockAllButFaults() {
    let open: [Int32] = [SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGPROF]
    for signal: Int32 in 1...64 {
      #expect((clinux_mask_of_own_threads() & bit(signal) == 0) == open.contains(signal), "\(signal)")
    }
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    clinux_mask_prepare(&attributes)
    let seen = Shared(UInt64(0))
    RunningThread(attributes: &attributes) { seen.pointer.pointee = clinux_mask_get() }.join()
    pthread_attr_destroy(&attributes)
    #expect(seen.pointer.pointee == clinux_mask_of_own_threads() & ~(bit(32) | bit(33) | bit(SIGKILL) | bit(SIGSTOP)))
  }

  private func pending() -> Bool {
    var set = sigset_t()
    sigpending(&set)
    return sigismember(&set, SIGPIPE) == 1
  }

  /// A write to a pipe without readers raises no signal. A SIGPIPE that was already pending stays pending.
  @Test func survivesWriteToClosedPipe() {
    onThread {
      var ends: [Int32] = [0, 0]
      pipe(&ends)
      for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
      #expect(clinux_write(ends[1], "abc", 3) == 3)
      close(ends[0])
      // A child of another test can briefly hold the read end.
      for _ in 0..<10_000 where clinux_write(ends[1], "abc", 3) != -1 { usleep(1000) }
      let before = clinux_mask_get()
      errno = 0
      #expect(clinux_write(ends[1], "abc", 3) == -1 && errno == EPIPE)
      #expect(clinux_mask_get() == before && !pending())
      _ = clinux_mask_set(before | bit(SIGPIPE))
      #expect(clinux_write(ends[1], "abc", 3) == -1 && !pending())
      pthread_kill(pthread_self(), SIGPIPE)
      #expect(pending())
      #expect(clinux_write(ends[1], "abc", 3) == -1 && pending())
      // Consumes the signal before the mask is restored.
      var set = sigset_t()
      sigemptyset(&set)
      sigaddset(&set, SIGPIPE)
      var atOnce = timespec()
      #expect(sigtimedwait(&set, nil, &atOnce) == SIGPIPE)
      _ = clinux_mask_set(before)
      close(ends[1])
    }
  }

  @Test func returnsOtherWriteErrors() {
    errno = 0
    #expect(clinux_write(-1, "abc", 3) == -1 && errno == EBADF)
    let file = unnamedFile()
    #expect(clinux_write(file, "abc", 2) == 2 && lseek(file, 0, SEEK_END) == 2)
    close(file)
  }
}

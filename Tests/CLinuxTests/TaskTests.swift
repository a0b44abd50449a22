import CCulpritLinux
import Glibc
import Testing

/// The kernel's information on threads.
@Suite(.serialized) struct TaskTests {
  /// Calls `body` with the id of a sleeping thread called `name`.
  private func withSleeper(_ name: String, _ body: (Int32) throws -> Void) rethrows {
    let id = Shared(Int32(0))
    let wakeup = Shared(clinux_wakeup())
    let thread = RunningThread {
      clinux_task_set_name(name)
      id.pointer.pointee = clinux_task_self()
      clinux_wakeup_notify(wakeup.pointer)
      while !clinux_wakeup_stopping(wakeup.pointer) { clinux_wakeup_wait(wakeup.pointer, 1, .max) }
    }
    while clinux_wakeup_seen(wakeup.pointer) == 0 { usleep(1000) }
    defer {
      clinux_wakeup_stop(wakeup.pointer)
      thread.join()
    }
    try body(id.pointer.pointee)
  }

  /// Each live thread of the process is listed once.
  @Test func listsEachThreadOnce() {
    #expect(clinux_task_start() == 0 && clinux_task_start() == 0)
    withSleeper("listed") { sleeper in
      var list: UnsafePointer<Int32>?
      let count = clinux_task_list(&list)
      // SAFETY: the list has `count` entries until the next call, which only this suite makes.
      let ids = (0..<Int(count)).compactMap { list?[$0] }
      #expect(ids.contains(sleeper) && ids.contains(clinux_task_self()) && ids.contains(getpid()))
      #expect(Set(ids).count == ids.count && ids.allSatisfy { $0 > 0 })
    }
  }

  /// Names can contain the delimiters of the kernel's stat file.
  @Test(arguments: ["sleeper", "a) R (b", ") R 1 R", "R", "((((((((((((((("]) func detectsSleepingThread(name: String) {
    withSleeper(name) { sleeper in
      for _ in 0..<10_000 where !clinux_task_is_asleep(sleeper) { usleep(1000) }
      #expect(clinux_task_is_asleep(sleeper))
    }
    #expect(!clinux_task_is_asleep(clinux_task_self()) && !clinux_task_is_asleep(1 << 29))
  }

  /// The calling thread is running, whatever its name.
  @Test(arguments: [") S (", "a) D", "S", ""]) func runningThreadIsNotAsleep(name: String) {
    RunningThread {
      clinux_task_set_name(name)
      #expect(!clinux_task_is_asleep(clinux_task_self()))
    }
    .join()
  }

  @Test func truncatesNamesToFifteenBytes() {
    RunningThread {
      clinux_task_set_name("0123456789abcdefghij")
      let file = open("/proc/thread-self/comm", O_RDONLY)
      defer { close(file) }
      var name = [UInt8](repeating: 0, count: 100)
      _ = read(file, &name, name.count)
      #expect(String(decoding: name.prefix { $0 > 10 }, as: UTF8.self) == "0123456789abcde")
    }
    .join()
  }

  @Test func opensFilesOfThreads() throws {
    for name in ["/stat", "/status", "/schedstat"] {
      var descriptor = clinux_task_open_file(clinux_task_self(), name)
      try #require(descriptor.number >= 0)
      var bytes = [UInt8](repeating: 0, count: 4096)
      #expect(read(descriptor.number, &bytes, bytes.count) > 0 && fcntl(descriptor.number, F_GETFD) & FD_CLOEXEC != 0)
      clinux_descriptor_close(&descriptor)
      #expect(descriptor.number == -1)
    }
    #expect(clinux_task_open_file(1 << 29, "/stat").number == -ENOENT)
    #expect(clinux_task_open_file(1 << 29, "/syscall").number == -ENOENT)
    // The file belongs to the given thread.
    var status = clinux_task_open_file(getpid(), "/stat")
    var text = [UInt8](repeating: 0, count: 64)
    #expect(read(status.number, &text, 64) > 0 && String(decoding: text, as: UTF8.self).hasPrefix("\(getpid()) ("))
    clinux_descriptor_close(&status)
  }

  /// The second field of schedstat is the time that the thread was runnable without a CPU.
  @Test func readsRunDelayFromKernel() throws {
    func second(_ path: String) throws -> UInt64 {
      let descriptor = open(path, O_RDONLY)
      defer { close(descriptor) }
      var text = [UInt8](repeating: 0, count: 100)
      let count = read(descriptor, &text, 100)
      let fields = String(decoding: text.prefix(max(0, count)), as: UTF8.self).split { $0 == " " || $0 == "\n" }
      return try #require(fields.count == 3 ? UInt64(fields[1]) : nil)
    }
    try withSleeper("waits") { sleeper in
      for _ in 0..<10_000 where !clinux_task_is_asleep(sleeper) { usleep(1000) }
      // A sleeping thread's delay does not change.
      let known = try second("/proc/self/task/\(sleeper)/schedstat")
      var turns: UInt64 = 0
      #expect(clinux_task_run_delay_ns(sleeper, &turns) == known && (turns > 0) == (known != .max))
    }
    var turns: UInt64 = 1
    #expect(clinux_task_run_delay_ns(1 << 29, &turns) == .max && turns == 0)
    var schedule = clinux_task_open_schedule()
    defer { clinux_descriptor_close(&schedule) }
    let before = try second("/proc/thread-self/schedstat")
    let starved = clinux_task_starved_ns(&schedule)
    #expect((before...(try second("/proc/thread-self/schedstat"))).contains(starved))
    // The service has closed the descriptor.
    close(schedule.number)
    let again = clinux_task_starved_ns(&schedule)
    #expect((starved...(try second("/proc/thread-self/schedstat"))).contains(again))
    #expect(clinux_descriptor_is_ours(&schedule))
  }
}

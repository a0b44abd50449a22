import CCulpritLinux
import CCulpritProcess
import Glibc
import Testing

/// The memory shared by the escalation thread and the rest of the watchdog.
@Suite struct EscalationTests {
  private final class Block {
    let pointer = UnsafeMutablePointer<cprocess_escalation>.allocate(capacity: 1)
    init() { pointer.initialize(to: cprocess_escalation()) }
    deinit {
      // SAFETY: allocated above, and no other code has the pointer.
      pointer.deallocate()
    }
  }

  private func taken(_ text: UnsafeMutablePointer<cprocess_text>, keep: Bool) -> String? {
    let count = cprocess_text_take(text)
    guard count > 0 else { return nil }
    defer { cprocess_text_taken(text, keep) }
    return String(decoding: UnsafeRawBufferPointer(start: cprocess_text_bytes(text), count: count), as: UTF8.self)
  }

  @Test func deliversTextOnce() throws {
    let block = Block()
    let status = try #require(cprocess_escalation_status(block.pointer))
    #expect(taken(status, keep: false) == nil)
    cprocess_text_put(status, 0, "one", 3)
    cprocess_text_put(status, 0, "number two", 6)
    #expect(taken(status, keep: true) == "number" && taken(status, keep: false) == "number")
    #expect(taken(status, keep: false) == nil)
    // An empty text is ignored.
    cprocess_text_put(status, 0, "", 0)
    #expect(taken(status, keep: false) == nil)
    cprocess_text_put(status, 0, "three", 5)
    #expect(taken(status, keep: false) == "three")
    let culprit = try #require(cprocess_escalation_culprit(block.pointer))
    #expect(taken(culprit, keep: false) == nil)
  }

  /// A text that is being read cannot be taken again.
  @Test func textHasSingleReader() throws {
    let block = Block()
    let status = try #require(cprocess_escalation_status(block.pointer))
    cprocess_text_put(status, 0, "text", 4)
    #expect(cprocess_text_take(status) == 4 && cprocess_text_take(status) == 0)
    cprocess_text_taken(status, true)
    #expect(cprocess_text_take(status) == 4)
    cprocess_text_taken(status, false)
    #expect(cprocess_text_take(status) == 0)
  }

  @Test func truncatesLongTexts() throws {
    let block = Block()
    let status = try #require(cprocess_escalation_status(block.pointer))
    let long = String(repeating: "0123456789", count: 300)
    for length in [1023, 1024, 1025, 3000] {
      cprocess_text_put(status, 0, long, length)
      #expect(taken(status, keep: false) == String(long.prefix(min(length, 1024))))
      cprocess_escalation_set_reason(block.pointer, long, length)
      #expect(block.pointer.pointee.termination.reason_bytes == UInt32(min(length, 2048)))
    }
    var request = cprocess_termination_request()
    let reason = String(unsafeUninitializedCapacity: 2048) {
      cprocess_escalation_ask(block.pointer)
      let number = cprocess_escalation_question(block.pointer)
      return cprocess_escalation_read_termination(block.pointer, number, &request, $0.baseAddress) ? 2048 : 0
    }
    #expect(reason == String(long.prefix(2048)))
  }

  @Test func keepsNoticesUntilRemoved() {
    let block = Block()
    let (ready, stopping) = (CPROCESS_NOTICE_READY.rawValue, CPROCESS_NOTICE_STOPPING.rawValue)
    let seen = cprocess_escalation_word(block.pointer)
    cprocess_escalation_add_notices(block.pointer, ready)
    cprocess_escalation_add_notices(block.pointer, stopping)
    cprocess_escalation_add_notices(block.pointer, ready)
    #expect(cprocess_escalation_notices(block.pointer) == ready | stopping)
    #expect(cprocess_escalation_word(block.pointer) == seen + 3)
    cprocess_escalation_remove_notices(block.pointer, ready)
    #expect(cprocess_escalation_notices(block.pointer) == stopping)
  }

  @Test func firstShutdownWins() {
    let block = Block()
    var base = cprocess_cpu()
    var thread: UInt64 = 7
    #expect(cprocess_escalation_shutdown_ns(block.pointer) == 0)
    #expect(!cprocess_escalation_shutdown_base(block.pointer, &base, &thread) && thread == 7)
    cprocess_escalation_begin_shutdown(block.pointer, 41)
    cprocess_escalation_begin_shutdown(block.pointer, 42)
    #expect(cprocess_escalation_shutdown_ns(block.pointer) == 41)
    var used = cprocess_cpu()
    used.user_ns = 5
    cprocess_escalation_note_shutdown(block.pointer, used, 6)
    #expect(cprocess_escalation_shutdown_base(block.pointer, &base, &thread) && base.user_ns == 5 && thread == 6)
  }

  /// A question ends when every handler has answered it; later answers are ignored.
  @Test func questionEndsAfterAllAnswers() {
    let block = Block()
    let own = block.pointer
    // Without handlers, a question is answered at once.
    cprocess_escalation_ask(own)
    #expect(cprocess_escalation_is_answered(own) && !cprocess_escalation_end_question(own))
    for _ in 0..<3 { cprocess_escalation_add_handler(own) }
    cprocess_escalation_remove_handler(own)
    #expect(cprocess_escalation_question(own) == 0)
    let word = cprocess_escalation_question_word(own)
    cprocess_escalation_termination(own).pointee.item = 4711
    cprocess_escalation_ask(own)
    let first = cprocess_escalation_question(own)
    #expect(first != 0 && cprocess_escalation_question_word(own) != word)
    var request = cprocess_termination_request()
    var reason = [UInt8](repeating: 0, count: Int(CPROCESS_REASON_BYTES))
    #expect(cprocess_escalation_read_termination(own, first, &request, &reason) && request.item == 4711)
    cprocess_escalation_answer(own, first, true)
    #expect(!cprocess_escalation_is_answered(own))
    let wake = cprocess_escalation_word(own)
    cprocess_escalation_answer(own, first, false)
    #expect(cprocess_escalation_is_answered(own) && cprocess_escalation_word(own) != wake)
    #expect(cprocess_escalation_end_question(own) && cprocess_escalation_question(own) == 0)
    #expect(!cprocess_escalation_read_termination(own, first, &request, &reason))
    // An answer to the first question does not count for the second.
    cprocess_escalation_ask(own)
    let second = cprocess_escalation_question(own)
    #expect(second != 0 && second != first)
    cprocess_escalation_answer(own, first, true)
    cprocess_escalation_answer(own, second, false)
    #expect(!cprocess_escalation_is_answered(own) && !cprocess_escalation_end_question(own))
    cprocess_escalation_answer(own, second, true)
    cprocess_escalation_ask(own)
    #expect(!cprocess_escalation_is_answered(own) && !cprocess_escalation_end_question(own))
  }

  /// A handler that is added during a question does not take part. A handler that is removed during a question must
  /// still answer. No answer replaces another handler's.
  @Test func countsHandlersPresentAtQuestion() {
    let block = Block()
    let own = block.pointer
    #expect(cprocess_escalation_add_handler(own) == 0 && cprocess_escalation_add_handler(own) == 0)
    cprocess_escalation_ask(own)
    let first = cprocess_escalation_question(own)
    #expect(cprocess_escalation_add_handler(own) == first && cprocess_escalation_remove_handler(own) == first)
    cprocess_escalation_answer(own, first, false)
    #expect(!cprocess_escalation_is_answered(own))
    cprocess_escalation_answer(own, first, true)
    #expect(cprocess_escalation_is_answered(own) && cprocess_escalation_end_question(own))
    #expect(cprocess_escalation_remove_handler(own) == 0)
    // One handler remains, and the earlier veto no longer counts.
    cprocess_escalation_ask(own)
    let second = cprocess_escalation_question(own)
    cprocess_escalation_answer(own, second, false)
    #expect(cprocess_escalation_is_answered(own) && !cprocess_escalation_end_question(own))
  }

  @Test func storesCountersSeparately() {
    let block = Block()
    let own = block.pointer
    #expect(cprocess_escalation_started(own) == 0 && !cprocess_escalation_stopping(own))
    cprocess_escalation_start(own)
    cprocess_escalation_start(own)
    #expect(cprocess_escalation_started(own) == 2)
    for isSent in [true, false, true] { cprocess_escalation_count_ping(own, isSent) }
    #expect(cprocess_escalation_pings(own, true) == 2 && cprocess_escalation_pings(own, false) == 1)
    cprocess_escalation_set_send_error(own, 5)
    cprocess_escalation_set_terminate_after_ns(own, 6)
    #expect(cprocess_escalation_send_error(own) == 5 && cprocess_escalation_terminate_after_ns(own) == 6)
  }

  /// The worker gets each request once, and none after the stop.
  @Test func servesEachRequestUntilStop() {
    let block = Block()
    let own = block.pointer
    cprocess_escalation_send_request(own, 9)
    #expect(cprocess_escalation_next_request(own, 0) == 9 && cprocess_escalation_next_request(own, 5) == 9)
    #expect(!cprocess_escalation_is_done(own, 9))
    let seen = cprocess_escalation_word(own)
    cprocess_escalation_done(own, 9)
    #expect(cprocess_escalation_is_done(own, 9) && !cprocess_escalation_is_done(own, 10))
    #expect(cprocess_escalation_word(own) == seen + 1)
    cprocess_escalation_stop(own)
    #expect(cprocess_escalation_stopping(own) && cprocess_escalation_next_request(own, 5) == 0)
    #expect(cprocess_escalation_word(own) == seen + 2)
  }
}

@Suite struct CPUTimeTests {
  /// User and system time of all processes in nanoseconds, from /proc/stat.
  private func machine() throws -> (user: UInt64, system: UInt64) {
    let descriptor = open("/proc/stat", O_RDONLY)
    defer { close(descriptor) }
    var text = [UInt8](repeating: 0, count: 4096)
    let count = read(descriptor, &text, text.count)
    let line = try #require(String(decoding: text.prefix(max(0, count)), as: UTF8.self).split(separator: "\n").first)
    let columns = line.split(separator: " ").dropFirst().compactMap { UInt64($0) }
    let tick = 1_000_000_000 / UInt64(sysconf(Int32(_SC_CLK_TCK)))
    return ((columns[0] + columns[1]) * tick, (columns[2] + columns[5] + columns[6]) * tick)
  }

  private func own() -> (user: UInt64, system: UInt64) {
    var used = rusage()
    getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &used)
    func nanoseconds(_ time: timeval) -> UInt64 { UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_usec) * 1000 }
    return (nanoseconds(used.ru_utime), nanoseconds(used.ru_stime))
  }

  @Test func cpuTimesMatchKernel() throws {
    var source = cprocess_cpu_source()
    cprocess_cpu_open(&source)
    #expect(source.cpus == UInt32(sysconf(Int32(_SC_NPROCESSORS_ONLN))))
    #expect(source.ticks == UInt32(sysconf(Int32(_SC_CLK_TCK))))
    for _ in 0..<5 {
      var seen = cprocess_cpu()
      let (time, process, all) = (clinux_clock_ns(), own(), try machine())
      cprocess_cpu_read(&source, &seen)
      let (laterTime, laterProcess, laterAll) = (clinux_clock_ns(), own(), try machine())
      #expect((time...laterTime).contains(seen.taken_ns))
      #expect((process.user...laterProcess.user).contains(seen.user_ns))
      #expect((process.system...laterProcess.system).contains(seen.system_ns))
      #expect((all.user...laterAll.user).contains(seen.machine_user_ns) && seen.machine_user_ns > 0)
      #expect((all.system...laterAll.system).contains(seen.machine_system_ns) && seen.machine_system_ns > 0)
    }
  }
}

import CCulpritLinux
import Glibc
import Synchronization
import Testing

private let countsWrites: Bool = {
  let word = Shared(UInt64(0))
  var watchpoint = clinux_watchpoint()
  let error = clinux_watchpoint_set(&watchpoint, clinux_task_self(), UInt64(UInt(bitPattern: word.pointer)))
  clinux_watchpoint_clear(&watchpoint)
  return error == 0
}()

/// A thread that writes to a word on request.
private final class Writer: Sendable {
  private struct State {
    var threadID: Int32 = 0
    var asked = 0
    var written = 0
    var isEnding = false
  }

  private let state = Mutex(State())

  static func with(_ word: Shared<UInt64>, _ body: (Writer) -> Void) {
    let writer = Writer()
    let thread = RunningThread { writer.run(word) }
    while writer.threadID == 0 { usleep(100) }
    body(writer)
    writer.state.withLock { $0.isEnding = true }
    thread.join()
  }

  var threadID: Int32 { state.withLock { $0.threadID } }

  /// Returns when it has written so many times.
  func write(_ count: Int) {
    let last = state.withLock { state in
      state.asked += count
      return state.asked
    }
    while state.withLock({ $0.written }) < last { usleep(100) }
  }

  private func run(_ word: Shared<UInt64>) {
    state.withLock { $0.threadID = clinux_task_self() }
    while !state.withLock({ $0.isEnding }) {
      let isAsked = state.withLock { $0.written < $0.asked }
      guard isAsked else {
        usleep(100)
        continue
      }
      word.pointer.pointee &+= 1
      state.withLock { $0.written += 1 }
    }
  }
}

/// Writes of a thread to a word, noted by the processor.
@Suite(.serialized, .enabled(if: countsWrites, "perf_event_open is refused here")) struct WatchpointTests {
  @Test func recordsFirstWrite() {
    let (word, other) = (Shared(UInt64(0)), Shared(UInt64(0)))
    Writer.with(word) { writer in
      var watchpoint = clinux_watchpoint()
      #expect(!clinux_watchpoint_is_hit(&watchpoint))
      for _ in 0..<3 {
        #expect(clinux_watchpoint_set(&watchpoint, writer.threadID, UInt64(UInt(bitPattern: word.pointer))) == 0)
        usleep(2000)
        // Neither another thread's write nor one to another word.
        word.pointer.pointee &+= 1
        other.pointer.pointee &+= 1
        #expect(!clinux_watchpoint_is_hit(&watchpoint))
        writer.write(1)
        #expect(clinux_watchpoint_is_hit(&watchpoint))
        // It is off then: the thread writes as ever.
        writer.write(1000)
        #expect(clinux_watchpoint_is_hit(&watchpoint))
        clinux_watchpoint_clear(&watchpoint)
        #expect(!clinux_watchpoint_is_hit(&watchpoint))
      }
      clinux_watchpoint_clear(&watchpoint)
    }
  }

  /// It takes none of the numbers that the service's files could have.
  @Test func keepsNoFileDescriptor() {
    let word = Shared(UInt64(0))
    func lowest() -> Int32 {
      let number = open("/dev/null", O_RDONLY | O_CLOEXEC)
      close(number)
      return number
    }
    // Other tests open files, too.
    var isKept = true
    for _ in 0..<100 where isKept {
      let before = lowest()
      var watchpoint = clinux_watchpoint()
      #expect(clinux_watchpoint_set(&watchpoint, clinux_task_self(), UInt64(UInt(bitPattern: word.pointer))) == 0)
      isKept = lowest() != before
      clinux_watchpoint_clear(&watchpoint)
    }
    #expect(!isKept)
  }

  @Test func rejectsUnknownThread() {
    var watchpoint = clinux_watchpoint()
    let word = Shared(UInt64(0))
    #expect(clinux_watchpoint_set(&watchpoint, Int32.max, UInt64(UInt(bitPattern: word.pointer))) == ESRCH)
    #expect(watchpoint.note == nil)
  }
}

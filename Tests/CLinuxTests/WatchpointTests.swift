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
    var requested = 0
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

  /// Requests `count` writes, and waits for their end.
  func write(_ count: Int) {
    let last = state.withLock { state in
      state.requested += count
      return state.requested
    }
    while state.withLock({ $0.written }) < last { usleep(100) }
  }

  private func run(_ word: Shared<UInt64>) {
    state.withLock { $0.threadID = clinux_task_self() }
    while !state.withLock({ $0.isEnding }) {
      let isRequested = state.withLock { $0.written < $0.requested }
      guard isRequested else {
        usleep(100)
        continue
      }
      word.pointer.pointee &+= 1
      state.withLock { $0.written += 1 }
    }
  }
}

/// Detection of a thread's writes to a word by hardware watchpoints.
@Suite(.serialized, .enabled(if: countsWrites, "perf_event_open is refused here")) struct WatchpointTests {
  @Test func recordsFirstWrite() {
    let (word, other) = (Shared(UInt64(0)), Shared(UInt64(0)))
    Writer.with(word) { writer in
      var watchpoint = clinux_watchpoint()
      #expect(!clinux_watchpoint_is_hit(&watchpoint))
      for _ in 0..<3 {
        #expect(clinux_watchpoint_set(&watchpoint, writer.threadID, UInt64(UInt(bitPattern: word.pointer))) == 0)
        usleep(2000)
        // Writes by another thread or to another word do not count.
        word.pointer.pointee &+= 1
        other.pointer.pointee &+= 1
        #expect(!clinux_watchpoint_is_hit(&watchpoint))
        writer.write(1)
        #expect(clinux_watchpoint_is_hit(&watchpoint))
        // A hit disables the watchpoint.
        writer.write(1000)
        #expect(clinux_watchpoint_is_hit(&watchpoint))
        clinux_watchpoint_clear(&watchpoint)
        #expect(!clinux_watchpoint_is_hit(&watchpoint))
      }
      clinux_watchpoint_clear(&watchpoint)
    }
  }

  /// The watchpoint uses no descriptor number of the service.
  @Test func keepsNoFileDescriptor() {
    let word = Shared(UInt64(0))
    func lowest() -> Int32 {
      let number = open("/dev/null", O_RDONLY | O_CLOEXEC)
      close(number)
      return number
    }
    // Tries repeatedly, because other tests also open files.
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

import Blame
import CObserver
import Glibc
import Reports
import StallRecord
import Symbols
import Synchronization

/// The thread that names what was recorded, finds who is to blame and calls the application's handlers.
///
/// Handlers run here, one after the other: one that blocks holds up later reports, but neither the monitor nor the
/// recorder.
final class Reporter: Sendable {
  typealias Handler = @Sendable (StallReport) -> Void

  /// The most stalls that wait for a handler; more are dropped and counted. What was saved stays saved.
  private static let waitingMax = 64

  private struct State {
    var waiting: [Recording] = []
    var handlers: [Handler] = []
    var dropped: UInt64 = 0
    var isStopping = false
  }

  private let state = Mutex(State())
  private let wake = ControlBlock()
  private let width: Int
  private let symbolMemory: Int

  /// A reporter whose reports have lines of `width` characters, and whose names take `symbolMemory` bytes at most.
  init(width: Int, symbolMemory: Int) {
    self.width = width
    self.symbolMemory = symbolMemory
  }

  /// Stalls that nobody was told of, because handlers could not keep up.
  var dropped: UInt64 { state.withLock { $0.dropped } }

  func add(_ handler: @escaping Handler) { state.withLock { $0.handlers.append(handler) } }

  /// Reports `recording` soon.
  func report(_ recording: Recording) {
    state.withLock { state in
      if state.waiting.count < Self.waitingMax { state.waiting.append(recording) } else { state.dropped += 1 }
    }
    observer_control_wake(wake.pointer)
  }

  /// Makes ``run()`` return when everything has been reported.
  func stop() {
    state.withLock { $0.isStopping = true }
    observer_control_wake(wake.pointer)
  }

  /// Reports until it is stopped.
  func run() {
    // Kept from report to report while they come one after the other: opening the modules' files takes most of the time.
    var symbolizer: (modules: [Module], value: Symbolizer)?
    while true {
      let seen = observer_control_wake_word(wake.pointer)
      let (next, handlers, isStopping) = state.withLock { state in
        (state.waiting.isEmpty ? nil : state.waiting.removeFirst(), state.handlers, state.isStopping)
      }
      if let next {
        if symbolizer?.modules != next.modules {
          symbolizer = (next.modules, Symbolizer(modules: next.modules, memoryMax: symbolMemory))
        }
        if let symbolizer { deliver(next, to: handlers, symbolizer.value) }
      } else if isStopping {
        // A handler may refer to the watchdog that refers to it.
        state.withLock { $0.handlers = [] }
        return
      } else {
        symbolizer = nil
        observer_wait(observer_control_wake_address(wake.pointer), seen, .max)
      }
    }
  }

  private func deliver(_ recording: Recording, to handlers: [Handler], _ symbolizer: Symbolizer) {
    for stall in recording.stalls {
      let blame = Blame(stall: stall, stacks: recording.stacks, resolve: symbolizer.resolve)
      let report = StallReport(
        recording: recording,
        stall: stall,
        blame: blame,
        others: recording.otherThreads(in: stall, resolve: symbolizer.resolve),
        width: width
      )
      if handlers.isEmpty {
        printToStandardError(report.description)
      } else {
        for handler in handlers { handler(report) }
      }
    }
  }
}

/// Writes `text` to standard error, past the C library's buffer and its lock.
func printToStandardError(_ text: String) {
  var rest = Array(text.utf8)[...]
  while !rest.isEmpty {
    let count = rest.withUnsafeBytes { write(STDERR_FILENO, $0.baseAddress, $0.count) }
    if count < 0, errno == EINTR { continue }
    guard count > 0 else { return }
    rest = rest.dropFirst(count)
  }
}

import NativeWork
import Synchronization

/// A function that works until a given time. The parts of a trial are random kinds.
struct Kind: Sendable {
  /// The function's name without its arguments.
  var name: String
  /// Identifiers of this kind alone: its function, and the program's functions that no other kind calls. A report with
  /// such an identifier refers to this kind.
  var identifiers: [String]
  /// The maximum number of runs in a process.
  var runsMax: Int
  /// Runs until the given time of `native_now`, or a little longer.
  var run: @Sendable (UInt64) -> Void

  init(_ name: String, with parts: [String] = [], runsMax: Int = .max, _ run: @escaping @Sendable (UInt64) -> Void) {
    self.name = name
    self.identifiers = [name] + parts
    self.runsMax = runsMax
    self.run = run
  }

  static let all = [
    computing, coding, strings, collections, calls, alike, waiting, files, native, dependencies,
  ].flatMap { $0 }

  /// A dozen kinds that every build names.
  static let solid = [
    "spinOnIntegers", "attemptOrders", "callDeep", "walkTree", "waitForLock", "sleepAWhile", "readFromPipe",
    "copy_pages", "poll_nothing", "waitForCondition", "drawShapes", "waitForSemaphore",
  ]
}

/// Whether `end` is in the future.
@inline(__always)
func isBefore(_ end: UInt64) -> Bool { native_now() < end }

/// Keeps results alive, to keep the compiler from dropping the work.
@inline(__always)
func keep(_ value: Int) { sink.store(value, ordering: .relaxed) }

private let sink = Atomic<Int>(0)

import NativeWork
import Synchronization

/// A kind of work that goes on until a given time in one function. Trials draw their parts from these.
struct Kind: Sendable {
  /// The function's name without its arguments.
  var name: String
  /// Identifiers of this kind only: its function, and the program's functions that it alone calls. A report with one of
  /// them refers to this kind.
  var identifiers: [String]
  /// The maximum number of runs in a process.
  var runsMax: Int
  /// Runs until a time of `native_now`, or a little longer.
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

/// Keeps results alive, so that the compiler cannot drop the work.
@inline(__always)
func keep(_ value: Int) { sink.store(value, ordering: .relaxed) }

private let sink = Atomic<Int>(0)

import NativeWork
import Synchronization

/// Work that goes on until a given time in a function of its own: what a trial's A and B are drawn from.
struct Kind: Sendable {
  /// The function's name without its arguments.
  var name: String
  /// The identifiers that are this kind's alone: its function, and what that calls of the program's own code. A report that
  /// uses one speaks of this kind.
  var identifiers: [String]
  /// How often it can be run in a process.
  var runsMax: Int
  /// Takes until a time of `native_now`, or a little longer.
  var run: @Sendable (UInt64) -> Void

  init(
    _ name: String,
    with parts: [String] = [],
    runsMax: Int = .max,
    _ run: @escaping @Sendable (UInt64) -> Void
  ) {
    self.name = name
    self.identifiers = [name] + parts
    self.runsMax = runsMax
    self.run = run
  }

  static let all = [
    computing, coding, strings, collections, calls, alike, waiting, files, native, dependencies,
  ].flatMap { $0 }

  /// A dozen that every build names.
  static let solid = [
    "spinOnIntegers", "attemptOrders", "callDeep", "walkTree", "waitForLock", "sleepAWhile", "readFromPipe",
    "copy_pages", "poll_nothing", "waitForCondition", "drawShapes", "waitForSemaphore",
  ]
}

/// Whether there is time left.
@inline(__always)
func isBefore(_ end: UInt64) -> Bool { native_now() < end }

/// Keeps results alive, so that the compiler cannot drop the work.
@inline(__always)
func keep(_ value: Int) { sink.store(value, ordering: .relaxed) }

private let sink = Atomic<Int>(0)

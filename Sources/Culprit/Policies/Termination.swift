import CCulpritObserver
import CulpritStallRecord

/// The end of a process because of a work item that was stuck for longer than ``Configuration/terminateAfter``.
public struct Termination: Sendable, CustomStringConvertible {
  /// The code that such ends have had since the first of their kind: "ate bad food".
  public static let code: UInt32 = 0x8bad_f00d

  /// What is to be done with the process.
  public enum Decision: Sendable, Hashable {
    /// It ends.
    case terminate
    /// It goes on: whoever says so has seen to it. This work item is not its end any more.
    case handled
  }

  /// What was stuck.
  public var source: WatchedSource
  /// The kernel's id of the stuck thread; 0 when no thread worked on it.
  public var threadID: Int32
  /// What the work item was allowed before it is the end of the process.
  public var allowance: Duration
  /// How long it has taken.
  public var elapsed: Duration
  /// What processor time was used meanwhile.
  public var cpu: CPUStatistics
  /// The stall as far as it was seen; `nil` when it could not be told in time.
  public var report: StallReport?
  /// The reason, in a paragraph, as it has been written to standard error.
  public var description: String
}

extension Watchdog {
  /// Calls `handler` before the process is ended for being stuck (``Configuration/terminateAfter``), on a thread of the
  /// watchdog's own. The record has been saved by then, and the reason has been written to standard error.
  ///
  /// The process ends unless a handler returns ``Termination/Decision/handled`` within two seconds. When the stuck
  /// thread holds the lock of the allocator, handlers that allocate are not heard.
  public func onTerminate(_ handler: @escaping @Sendable (Termination) -> Termination.Decision) {
    policies?.add(handler)
  }
}

import CulpritReports
import CulpritStallRecord

extension Watchdog {
  /// The end of a process because of a work item that was stuck for longer than ``Watchdog/Configuration/Lifecycle/terminateAfter``.
  public struct TerminationRequest: Sendable, CustomStringConvertible {
    /// The code that such ends have had since the first of their kind: "ate bad food".
    public static let code: UInt32 = 0x8bad_f00d

    /// What is to be done with the process.
    public struct Decision: Hashable, Sendable {
      let vetoes: Bool
      /// It ends.
      public static let terminate = Decision(vetoes: false)
      /// It goes on: whoever says so has seen to it. This work item is not its end any more.
      public static let veto = Decision(vetoes: true)
    }

    /// What was stuck.
    public var source: StallReport.Source
    /// The kernel's id of the stuck thread; 0 when no thread worked on it.
    public var threadID: Int32
    /// What the work item was allowed before it is the end of the process.
    public var threshold: Duration
    /// How long it has taken.
    public var elapsed: Duration
    /// What processor time was used meanwhile.
    public var processorTime: ProcessorTime
    /// The stall as far as it was seen; `nil` when it could not be told in time.
    public var report: StallReport?
    /// The reason, in a paragraph, as it has been written to standard error.
    public var description: String
  }

  /// Calls `handler` before the process is ended for being stuck (``Watchdog/Configuration/Lifecycle/terminateAfter``), on a thread of the
  /// watchdog's own. The record has been saved by then, and the reason has been written to standard error.
  ///
  /// The process ends unless a handler returns ``TerminationRequest/Decision/veto`` within two seconds. When the stuck thread
  /// holds the lock of the allocator, handlers that allocate are not heard.
  @discardableResult
  public func onTerminate(
    _ handler: @escaping @Sendable (TerminationRequest) -> TerminationRequest.Decision
  ) -> Registration {
    guard let policies = core?.policies, !isStopped else { return Registration(nil) }
    let remove = policies.add(handler)
    return keep(Registration(remove))
  }
}

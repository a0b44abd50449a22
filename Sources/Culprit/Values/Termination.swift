import CulpritReports
import CulpritStallRecord

extension Watchdog {
  /// The termination of the process by a work item stuck for longer than ``Configuration/Lifecycle/terminateAfter``.
  public struct TerminationRequest: Sendable, CustomStringConvertible {
    /// The code of the termination, as on iOS.
    public static let code: UInt32 = 0x8bad_f00d

    /// The decision about the process.
    public struct Decision: Hashable, Sendable {
      let vetoes: Bool
      /// The process is terminated.
      public static let terminate = Decision(vetoes: false)
      /// The process continues. The same work item cannot terminate it later.
      public static let veto = Decision(vetoes: true)
    }

    let boxed: Boxed<StallReport>?
    /// The stuck source.
    public var source: StallReport.Source
    /// The kernel's id of the stuck thread; 0 without a thread.
    public var threadID: Int32
    /// The age at which the work item terminates the process.
    public var threshold: Duration
    /// The age of the work item.
    public var elapsed: Duration
    /// The CPU time used while the work item was stuck.
    public var cpuTime: CPUTime
    /// The report so far; `nil` if it was not made in time.
    public var report: StallReport? { boxed?.value }
    /// The reason in one paragraph, as printed to standard error.
    public var description: String
  }
}

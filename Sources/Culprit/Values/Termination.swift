import CulpritReports

extension Watchdog {
  /// The end of the process, because a work item was stuck for longer than ``Configuration/Lifecycle/terminateAfter``.
  public struct TerminationRequest: Sendable, CustomStringConvertible {
    /// The code of such an end, as iOS has it: "ate bad food".
    public static let code: UInt32 = 0x8bad_f00d

    /// What is to be done with the process.
    public struct Decision: Hashable, Sendable {
      let vetoes: Bool
      /// It ends.
      public static let terminate = Decision(vetoes: false)
      /// It goes on. This work item does not end it any more.
      public static let veto = Decision(vetoes: true)
    }

    /// The stuck source.
    public var source: StallReport.Source
    /// The kernel's id of the stuck thread; 0 when no thread worked on it.
    public var threadID: Int32
    /// The age at which the work item ends the process.
    public var threshold: Duration
    /// The age of the work item.
    public var elapsed: Duration
    /// The processor time that was used meanwhile.
    public var processorTime: ProcessorTime
    /// The report so far; `nil` when it could not be made in time.
    public var report: StallReport?
    /// The reason in one paragraph, as it was written to standard error.
    public var description: String
  }
}

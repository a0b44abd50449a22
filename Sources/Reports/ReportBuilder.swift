import Blame
import StallRecord

extension Recording {
  /// The text reports of all stalls in this recording.
  ///
  /// - Parameters:
  ///   - width: The length of a line in characters.
  ///   - resolve: Names a frame; the innermost function first where calls were inlined.
  /// - Returns: A report for each stall, in order.
  public func textReports(width: Int, resolve: (StackFrame) -> [ResolvedFrame]) -> [String] {
    stalls.map { stall in
      let blame = Blame(stall: stall, stacks: stacks, resolve: resolve)
      return TextReport(process: process, stall: stall, blame: blame).text(width: width)
    }
  }
}

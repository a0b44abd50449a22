/// Compares the report of the next launch with facts about the killed process.
package struct KillJudgement {
  /// Whether the launch reported the killed process.
  package var isRunReported: Bool
  /// The number of reported hangs.
  package var hangs: Int
  /// The reported duration in nanoseconds; `nil` unless exactly one hang, of the given source if any, has the right
  /// culprit.
  package var duration: Int64?

  /// - Parameters:
  ///   - text: The output of `blackbox-process DIRECTORY report`.
  ///   - process: The id of the killed process.
  ///   - culprit: The function that was stalled.
  ///   - source: The source of the hang; `nil` for any source.
  package init(_ text: String, process: Int32, culprit: String, source: String? = nil) {
    let lines = text.split(separator: "\n")
    isRunReported = lines.contains { $0.hasPrefix("run=\(process) ") }
    let found = lines.filter { $0.hasPrefix("hang=\(source.map { $0 + " " } ?? "")") }
    hangs = found.count
    let fields = found.first?.split(separator: " ") ?? []
    if found.count == 1, fields.count >= 5, fields.contains(culprit[...]) {
      duration = Int64(fields[fields.count - 3])
    }
  }
}

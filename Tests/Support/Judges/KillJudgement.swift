/// Compares the report of the next launch with the kill of the previous process.
package struct KillJudgement {
  /// Whether the launch reported the killed process.
  package var isRunReported: Bool
  /// The number of reported hangs.
  package var hangs: Int
  /// The reported duration in nanoseconds. `nil` unless there is exactly one hang, or one of the given source, with the
  /// right culprit.
  package var duration: Int64?

  /// - Parameters:
  ///   - text: The output of `blackbox-process DIRECTORY report`.
  ///   - process: The number of the killed process.
  ///   - culprit: The function that was stalled.
  ///   - source: The source to look at; `nil`: the only one.
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

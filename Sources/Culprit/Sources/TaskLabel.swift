import CCulpritObserver

/// Returns the last 56 bytes of `text` or fewer, from a character boundary. The end of a path distinguishes requests.
func labelBytes(of text: String) -> [UInt8] {
  // 10xxxxxx continues a character in UTF-8.
  Array(text.utf8.suffix(OBSERVER_LABEL_WORDS * 8).drop { $0 & 0xc0 == 0x80 })
}

/// A label of a task and its child tasks. Samplers read this object from other threads.
final class TaskLabel: @unchecked Sendable {
  // SAFETY: the object is immutable.
  /// The first property, directly after the object header.
  let label: observer_label

  @TaskLocal static var current: TaskLabel?

  /// The key of ``current`` among task-local values.
  static var key: UInt64 { UInt64(UInt(bitPattern: Unmanaged.passUnretained($current).toOpaque())) }

  init(_ text: String) {
    var label = observer_label()
    let bytes = labelBytes(of: text)
    withUnsafeMutableBytes(of: &label.text) { $0.copyBytes(from: bytes) }
    label.bytes = UInt32(bytes.count)
    self.label = label
  }
}

extension Watchdog {
  /// Labels the work of a task. Reports show the label for samples of the task and its child tasks, on whatever thread
  /// they run.
  ///
  ///     await Watchdog.withLabel("request 4711") { await handle(request) }
  ///
  /// Reports show the innermost of nested labels. A label of the watched loop or section takes precedence. The cost is
  /// that of binding a task-local value.
  ///
  /// - Parameters:
  ///   - text: The label. Text longer than 56 bytes keeps its last 56.
  ///   - isolation: The actor on which `body` runs; default: the caller's.
  ///   - body: The work.
  /// - Returns: The result of `body`.
  /// - Throws: The error thrown by `body`.
  public static func withLabel<Result>(
    _ text: String,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws -> Result
  ) async rethrows -> Result {
    TaskProbe.shared.startInTask()
    return try await TaskLabel.$current.withValue(TaskLabel(text), operation: body, isolation: isolation)
  }

  /// Labels the work of a synchronous closure. Reports show the label for samples of the current task and of child
  /// tasks.
  ///
  /// - Parameters:
  ///   - text: The label. Text longer than 56 bytes keeps its last 56.
  ///   - body: The work.
  /// - Returns: The result of `body`.
  /// - Throws: The error thrown by `body`.
  public static func withLabel<Result>(_ text: String, _ body: () throws -> Result) rethrows -> Result {
    TaskProbe.shared.startInTask()
    return try TaskLabel.$current.withValue(TaskLabel(text), operation: body)
  }
}

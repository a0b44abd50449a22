import CCulpritObserver

/// A label that a task has, and its children have by it: an object that samplers read from outside.
final class TaskLabel: @unchecked Sendable {
  // SAFETY: it is not changed once it has been made.
  /// The first property: it lies where the object's head ends.
  let label: observer_label

  /// The label of the task that runs.
  @TaskLocal static var current: TaskLabel?

  /// What the runtime finds the label by.
  static var key: UInt64 { UInt64(UInt(bitPattern: Unmanaged.passUnretained($current).toOpaque())) }

  /// A label with the beginning of `text`.
  init(_ text: String) {
    var label = observer_label()
    withUnsafeMutableBytes(of: &label.text) { room in
      // A character that does not fit is left out as a whole.
      var bytes = Array(text.utf8.prefix(room.count))
      while String(validating: bytes, as: UTF8.self) == nil { bytes.removeLast() }
      room.copyBytes(from: bytes)
      label.bytes = UInt32(bytes.count)
    }
    self.label = label
  }
}

extension Watchdog {
  /// Labels the work of a task: samples of the task and of its children have the label in reports, whatever thread runs them and
  /// whatever watches it.
  ///
  ///     await Watchdog.withLabel("request 4711") { await handle(request) }
  ///
  /// The innermost of several labels is told, and before any of them the one that a loop or a section gives its work. Costs what
  /// binding a task-local value costs.
  ///
  /// - Parameters:
  ///   - text: The label. Of a longer one than 56 bytes the beginning is kept.
  ///   - isolation: Where `body` runs; default: where the caller does.
  ///   - body: The work.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws.
  public static func withLabel<Result>(
    _ text: String,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws -> Result
  ) async rethrows -> Result {
    TaskProbe.shared.startInTask()
    return try await TaskLabel.$current.withValue(TaskLabel(text), operation: body, isolation: isolation)
  }

  /// As the form that may suspend.
  ///
  /// - Parameters:
  ///   - text: The label. Of a longer one than 56 bytes the beginning is kept.
  ///   - body: The work.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws.
  public static func withLabel<Result>(_ text: String, _ body: () throws -> Result) rethrows -> Result {
    TaskProbe.shared.startInTask()
    return try TaskLabel.$current.withValue(TaskLabel(text), operation: body)
  }
}

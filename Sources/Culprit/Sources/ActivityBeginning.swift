import CulpritBlame
import CulpritReports
import CulpritStallRecord
import CulpritSymbols

extension Watchdog.LeakedActivity {
  /// Creates a leaked activity that symbolizes its stacks on demand.
  ///
  /// - Parameters:
  ///   - name: The activity's name.
  ///   - reason: Why the activity counts as leaked.
  ///   - age: The time since its beginning.
  ///   - repeats: Number of equal reports that were only counted.
  ///   - beginning: The return addresses at its beginning, innermost first.
  ///   - task: The state of its task, if it was begun in one.
  init(
    name: String,
    reason: Reason,
    age: Duration,
    repeats: Int,
    beginning: [UInt64],
    task: TaskReference?
  ) {
    self.init(
      name: name,
      reason: reason,
      age: age,
      repeats: repeats,
      taskState: task?.state.rawValue,
      beginning: {
        let names = Self.symbolizer().names(of: beginning.map { .returnAddress(RuntimeAddress($0)) })
        let own = names.lastIndex { $0.hasPrefix("Watchdog.beginActivity") || $0.hasPrefix("Watchdog.withActivity") }
        return Array(names[(own.map { $0 + 1 } ?? 0)...])
      },
      waiting: {
        guard let task, !task.frames.isEmpty else { return [] }
        return Self.symbolizer().names(of: task.frames)
      }
    )
  }

  private static func symbolizer() -> Symbolizer {
    var modules = ModuleList()
    modules.load()
    return Symbolizer(modules: modules.all, unread: RemoteMounts().reasons(for: modules.all.map(\.path)))
  }
}

extension Symbolizer {
  /// Returns the names of `frames`, innermost first.
  fileprivate func names(of frames: [StackFrame]) -> [String] {
    TaskStack(Stack(frames: frames, end: .outermost)).resolve(resolve).map(\.displayName)
  }
}

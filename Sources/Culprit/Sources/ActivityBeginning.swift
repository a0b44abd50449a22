import CulpritBlame
import CulpritReports
import CulpritStallRecord
import CulpritSymbols

extension Watchdog.LeakedActivity {
  /// Symbolizes the return addresses `beginning` and the stack of `task` on demand. `repeats` is the number of
  /// suppressed equal reports.
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
    let modules = ModuleList.covering([])
    return Symbolizer(modules: modules, unread: RemoteMounts().reasons(for: modules.map(\.path)))
  }
}

extension Symbolizer {
  fileprivate func names(of frames: [StackFrame]) -> [String] {
    TaskStack(Stack(frames: frames, end: .outermost)).resolve(resolve).map(\.displayName)
  }
}

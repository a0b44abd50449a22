import CulpritReports
import CulpritStallRecord
import CulpritSymbols

extension Watchdog.LeakedActivity {
  /// One whose calls at its beginning return to the addresses in `beginning`, innermost first.
  init(name: String, reason: Reason, age: Duration, beginning: [UInt64]) {
    self.init(name: name, reason: reason, age: age) {
      let frames = beginning.map { StackFrame.returnAddress(RuntimeAddress($0)) }
      var modules = ModuleList()
      modules.load()
      let symbolizer = Symbolizer(modules: modules.all, unread: RemoteModules.unread)
      let names = frames.flatMap(symbolizer.resolve).namingMergedFunctions().map(\.displayName)
      let own = names.lastIndex { $0.hasPrefix("Watchdog.beginActivity") || $0.hasPrefix("Watchdog.withActivity") }
      return Array(names[(own.map { $0 + 1 } ?? 0)...])
    }
  }
}

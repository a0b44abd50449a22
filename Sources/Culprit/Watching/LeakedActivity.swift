import CulpritReports
import CulpritStallRecord
import CulpritSymbols

extension Watchdog {
  /// An activity that has not ended as it should.
  public struct LeakedActivity: Sendable, CustomStringConvertible {
    /// What is wrong with it.
    public struct Reason: ReportCode {
      /// The word.
      public var rawValue: String
      /// What `rawValue` says, also where this version does not know it.
      public init(rawValue: String) { self.rawValue = rawValue }
      /// Its time ran out, its expiration handler has returned, and it has not ended.
      public static let expired = Reason(rawValue: "expired")
      /// Nobody refers to it any more, and it has not ended.
      public static let dropped = Reason(rawValue: "dropped")
    }

    /// What it was called.
    public let name: String
    /// What is wrong with it.
    public let reason: Reason
    /// How long it had been going on.
    public let age: Duration
    /// Where it began: the addresses that its calls return to, innermost first.
    let beginning: [UInt64]

    /// The functions that it began in, innermost first, without the watchdog's own. Takes as long as reading symbols takes,
    /// on the calling thread: a handler may. Never uses the network.
    public func stack() -> [String] {
      let frames = beginning.map { StackFrame.returnAddress(RuntimeAddress($0)) }
      var modules = ModuleList()
      modules.load()
      let symbolizer = Symbolizer(modules: modules.all, unread: RemoteModules.unread)
      let names = frames.flatMap(symbolizer.resolve).namingMergedFunctions().map(\.displayName)
      let own = names.lastIndex { $0.hasPrefix("Watchdog.beginActivity") || $0.hasPrefix("Watchdog.withActivity") }
      return Array(names[(own.map { $0 + 1 } ?? 0)...])
    }

    /// The activity and where it began. Takes as long as ``stack()``.
    public var description: String {
      let what = reason == .expired ? "its time ran out" : "nobody refers to it any more"
      return "activity \"\(printable(name))\", for \(age): \(what) and it has not ended. It began in:\n"
        + stack().map { "  \(printable($0))\n" }.joined()
    }
  }
}

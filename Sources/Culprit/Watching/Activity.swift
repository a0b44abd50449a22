import CCulpritObserver
import CulpritStallRecord
import CulpritSymbols
import Glibc
import Synchronization

extension Watchdog {
  /// Tells of work that has begun and is expected to end: an upload, a migration, a request to another service.
  ///
  /// Every stall's report lists the activities that are going on. When the time runs out, `onExpiration` is called, on a
  /// thread of the watchdog's own; it is to make the work end. An activity that has not ended after that, or whose last
  /// reference is gone before it has, is told to the handlers of ``onLeakedActivity(_:)``.
  ///
  /// Costs a walk of the caller's stack, some microseconds.
  ///
  /// - Parameters:
  ///   - name: What reports call it.
  ///   - time: How long it may take; for ever when `nil`.
  ///   - onExpiration: Called when it has taken longer.
  /// - Returns: The activity, which must be kept and ended.
  /// - Throws: ``WatchdogError/tooManyActivities(limit:)``, ``WatchdogError/stopped``,
  ///   ``WatchdogError/notInThisProcess(watched:)``, ``WatchdogError/invalidConfiguration(_:)`` for a time that is not positive.
  public func beginActivity(
    _ name: String,
    expiring time: Duration? = nil,
    onExpiration: (@Sendable () -> Void)? = nil
  ) throws(WatchdogError) -> Activity {
    if !isDisabled { _ = try control() }
    if let time, time <= .zero {
      let limit = "may take \(time); it must be longer than no time at all"
      throw .invalidConfiguration("the activity \(quoted(name)) \(limit)")
    }
    guard let activities else { return Activity(name: name, number: 0, activities: nil) }
    return try activities.begin(name, expiring: time, onExpiration)
  }

  /// Runs `body` as an activity, which ends with it.
  ///
  /// - Parameters: As for ``beginActivity(_:expiring:onExpiration:)``.
  /// - Returns: What `body` returns.
  /// - Throws: What `body` throws. When no activity can begin, `body` runs all the same.
  public func activity<Result, Failure: Error>(
    _ name: String,
    expiring time: Duration? = nil,
    onExpiration: (@Sendable () -> Void)? = nil,
    _ body: () throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let activity = try? beginActivity(name, expiring: time, onExpiration: onExpiration)
    defer { activity?.end() }
    return try body()
  }

  /// The same for work that waits without a thread.
  public func activity<Result, Failure: Error>(
    _ name: String,
    expiring time: Duration? = nil,
    onExpiration: (@Sendable () -> Void)? = nil,
    isolation: isolated (any Actor)? = #isolation,
    _ body: () async throws(Failure) -> Result
  ) async throws(Failure) -> Result {
    let activity = try? beginActivity(name, expiring: time, onExpiration: onExpiration)
    defer { activity?.end() }
    return try await body()
  }

  /// Calls `handler` with every activity that has not ended as it should, on a thread of the watchdog's own. While there is
  /// no handler, they are told on standard error, by a thread of the watchdog's own as well: letting go of an activity
  /// waits for nothing.
  public func onLeakedActivity(_ handler: @escaping @Sendable (LeakedActivity) -> Void) {
    activities?.leaked.add(handler)
  }
}

/// Work that was said to have begun, until ``end()``.
public final class Activity: Sendable {
  /// What reports call it.
  public let name: String
  private let number: UInt64
  private let activities: Activities?

  init(name: String, number: UInt64, activities: Activities?) {
    self.name = name
    self.number = number
    self.activities = activities
  }

  deinit { activities?.drop(number) }

  /// Says that the work has ended. Does nothing the second time.
  public func end() { activities?.end(number) }

  /// How long it may still take: `nil` when for ever, zero when its time has run out or it has ended.
  public var timeRemaining: Duration? { activities?.timeRemaining(number) ?? nil }
}

/// An activity that has not ended as it should.
public struct LeakedActivity: Sendable, CustomStringConvertible {
  /// What is wrong with it.
  public enum Reason: Sendable {
    /// Its time ran out, its expiration handler has returned, and it has not ended.
    case expired
    /// Nobody refers to it any more, and it has not ended.
    case dropped
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
    let own = names.lastIndex { $0.hasPrefix("Watchdog.beginActivity") || $0.hasPrefix("Watchdog.activity") }
    return Array(names[(own.map { $0 + 1 } ?? 0)...])
  }

  /// The activity and where it began. Takes as long as ``stack()``.
  public var description: String {
    let what =
      switch reason {
      case .expired: "its time ran out and it has not ended"
      case .dropped: "nobody refers to it any more and it has not ended"
      }
    return "activity \"\(printable(name))\", for \(age): \(what). It began in:\n"
      + stack().map { "  \(printable($0))\n" }.joined()
  }
}

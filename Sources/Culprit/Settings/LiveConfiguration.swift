import CCulpritLinux
import CulpritStallRecord
import Synchronization

/// The configuration in code, changed by the environment and the configuration file.
final class LiveConfiguration: Sendable {
  private struct State {
    var base: Configuration
    var content: ConfigurationFile.Content?
    var current: Configuration
    var problems: [String]
    /// Applies a change to the running watchdog, if any, and returns the problems.
    var apply: (@Sendable (Configuration) -> [String])?
  }

  private let environment: Environment
  /// While the lock is held, nothing is printed, because standard error might block, and no application code is called.
  private let state: Mutex<State>
  /// The thread that is changing the configuration in code; 0 if none.
  private let changer = Atomic<Int32>(0)
  private let change = Mutex(())
  private let isFollowed = Atomic<Bool>(true)
  /// The configuration at the start.
  let initial: Configuration

  /// `content` is the contents of the file at the start.
  init(_ base: Configuration, _ environment: Environment, content: ConfigurationFile.Content?) {
    self.environment = environment
    let (configuration, found) = environment.applied(to: base, content: content)
    let problems = found.map { printable($0) }
    initial = configuration
    state = Mutex(State(base: base, content: content, current: configuration, problems: problems))
    Self.say(problems)
  }

  var current: Configuration { state.withLock { $0.current } }

  var problems: [String] { state.withLock { $0.problems } }

  /// Calls `apply` now and after each change.
  func follow(_ apply: @escaping @Sendable (Configuration) -> [String]) {
    let problems = state.withLock { state in
      state.apply = apply
      return apply(state.current)
    }
    Self.say(problems)
  }

  /// Waits until `deadline` for a change in progress.
  func unfollow(until deadline: UInt64) {
    isFollowed.store(false, ordering: .releasing)
    while state.withLockIfAvailable({ $0.apply = nil }) == nil, clinux_clock_ns() < deadline {
      allowingFork { clinux_pause_ns(1_000_000) }
    }
  }

  func change(_ change: (inout Configuration) -> Void) throws(WatchdogError) {
    let own = clinux_task_self()
    // The thread would wait for itself.
    guard changer.load(ordering: .relaxed) != own else { throw .changedWithin }
    let result = self.change.withLock { _ -> Result<[String], WatchdogError> in
      changer.store(own, ordering: .relaxed)
      defer { changer.store(0, ordering: .relaxed) }
      do throws(WatchdogError) {
        let base = try state.withLock { $0.base }.changed(change)
        return .success(
          state.withLock { state in
            state.base = base
            return update(&state)
          }
        )
      } catch {
        return .failure(error)
      }
    }
    Self.say(try result.get())
  }

  /// Returns one sentence for each setting in which a second watchdog's configuration differs. Settings that `other`
  /// leaves at their defaults are skipped.
  func disagreements(with other: Configuration) -> [String] {
    let (current, defaults) = (current, Configuration())
    return Setting.all.filter { setting in
      ![setting.show(current), setting.show(defaults)].contains(setting.show(other))
    }
    .map { setting in
      "\(setting.property) is \(setting.show(current)), as the first watchdog of this process has it, "
        + "and not \(printable(setting.show(other), limit: sentencePartMax))"
    }
  }

  func fileChanged(_ content: ConfigurationFile.Content) {
    let problems = state.withLock { state -> [String] in
      guard content != state.content else { return [] }
      state.content = content
      return update(&state)
    }
    Self.say(problems)
  }

  /// Returns the new problems.
  private func update(_ state: inout State) -> [String] {
    let (configuration, found) = environment.applied(to: state.base, content: state.content, running: state.current)
    let problems = found.map { printable($0) }
    let new = problems.filter { !state.problems.contains($0) }
    state.current = configuration
    state.problems = problems
    guard isFollowed.load(ordering: .acquiring), let apply = state.apply else { return new }
    return new + apply(configuration)
  }

  /// Prints to standard error. Can block.
  static func say(_ problems: [String]) {
    for problem in problems { printToStandardError("culprit: \(printable(problem))\n") }
  }
}

extension Watchdog {
  /// Changes the configuration while the watchdog runs: thresholds, intervals, and whether the watchdog watches.
  ///
  ///     try watchdog.reconfigure { $0.sampling.threshold = .seconds(2) }
  ///
  /// Sections, and watches with their own thresholds, keep their thresholds. The environment and the configuration file
  /// still override the code. A stall in progress remains a stall.
  ///
  /// - Parameter change: Changes the configuration given in code. Changes by other threads wait until it returns.
  /// - Throws: ``WatchdogError/Code/fixedWhileRunning`` for a setting that is fixed while the watchdog runs;
  ///   ``WatchdogError/Code/invalidConfiguration`` for an invalid result, or a call inside another `change`;
  ///   ``WatchdogError/Code/notInThisProcess``; ``WatchdogError/Code/stopped``. After an error, nothing is changed.
  public func reconfigure(_ change: (inout Configuration) -> Void) throws(WatchdogError) {
    if !isDisabled { _ = try running() }
    try live.change(change)
  }
}

import CCulpritLinux
import CulpritStallRecord
import Glibc
import Synchronization

/// The configuration that holds now: the code's, with what the environment and the configuration file change in it.
final class LiveConfiguration: Sendable {
  private struct State {
    /// What the code says.
    var base: Configuration
    var content: ConfigurationFile.Content?
    var current: Configuration
    /// What is wrong with the environment and the file now.
    var problems: [String]
    /// Carries a change to what is running, once it is. Returns what went wrong.
    var apply: (@Sendable (Configuration) -> [String])?
  }

  private let environment: Environment
  /// Nothing is written while it is held, whoever reads standard error may be what hangs; and no code of the application
  /// is called.
  private let state: Mutex<State>
  /// The thread that is just changing what the code says; 0 when there is none. Others wait for it.
  private let changer = Atomic<Int32>(0)
  private let change = Mutex(())
  /// Whether changes have an effect on what is running.
  private let isFollowed = Atomic<Bool>(true)
  /// What was in force first.
  let initial: Configuration

  /// The configuration that `base` and `environment` make, the file read a first time into `content`.
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

  /// From now on `apply` gets the configuration whenever it has changed.
  func follow(_ apply: @escaping @Sendable (Configuration) -> [String]) {
    let problems = state.withLock { state in
      state.apply = apply
      return apply(state.current)
    }
    Self.say(problems)
  }

  /// No change has an effect any more. Waits until `deadline` for one that is having it.
  func unfollow(until deadline: UInt64) {
    isFollowed.store(false, ordering: .releasing)
    while state.withLockIfAvailable({ $0.apply = nil }) == nil, clinux_clock_ns() < deadline {
      resting { clinux_pause_ns(1_000_000) }
    }
  }

  /// Changes what the code says.
  func change(_ change: (inout Configuration) -> Void) throws(WatchdogError) {
    let own = clinux_task_self()
    // It would wait for itself.
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

  /// What `other`, which somebody else wants in the same process, has otherwise than this: a sentence for each setting
  /// that it does not leave at its default.
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

  /// The file has changed.
  func fileChanged(_ content: ConfigurationFile.Content) {
    let problems = state.withLock { state -> [String] in
      guard content != state.content else { return [] }
      state.content = content
      return update(&state)
    }
    Self.say(problems)
  }

  /// Makes what holds now from what is said. Returns what is to be said of it.
  private func update(_ state: inout State) -> [String] {
    let (configuration, found) = environment.applied(to: state.base, content: state.content, running: state.current)
    let problems = found.map { printable($0) }
    let new = problems.filter { !state.problems.contains($0) }
    state.current = configuration
    state.problems = problems
    guard isFollowed.load(ordering: .acquiring), let apply = state.apply else { return new }
    return new + apply(configuration)
  }

  /// Writes `problems` to standard error: waits for whoever reads it.
  static func say(_ problems: [String]) {
    for problem in problems { printToStandardError("culprit: \(printable(problem))\n") }
  }
}

extension Watchdog {
  /// Changes the configuration while the watchdog runs: thresholds, intervals, and whether anything is watched at all.
  ///
  ///     try watchdog.reconfigure { $0.sampling.threshold = .seconds(2) }
  ///
  /// Loops with thresholds of their own and sections keep theirs. The environment and the configuration file still beat
  /// the code. A stall that is under way goes on as one.
  ///
  /// - Parameter change: Changes the configuration of the code. Changes by other threads wait until it returns.
  /// - Throws: ``WatchdogError/Code/fixedWhileRunning`` when `change` touches a setting that is fixed while the
  ///   watchdog runs, ``WatchdogError/Code/invalidConfiguration`` when the result is invalid, or when it is called by
  ///   `change` of another call, ``WatchdogError/Code/notInThisProcess``. Nothing is changed then.
  public func reconfigure(_ change: (inout Configuration) -> Void) throws(WatchdogError) {
    if !isDisabled { _ = try running() }
    try live.change(change)
  }
}

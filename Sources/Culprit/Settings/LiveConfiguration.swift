import CulpritStallRecord
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
    /// Carries a change to what is running, once it is.
    var apply: (@Sendable (Configuration) -> Void)?
  }

  private let environment: Environment
  private let state: Mutex<State>
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
  func follow(_ apply: @escaping @Sendable (Configuration) -> Void) {
    state.withLock { state in
      state.apply = apply
      apply(state.current)
    }
  }

  /// No change has an effect any more.
  func unfollow() { state.withLock { $0.apply = nil } }

  /// Changes what the code says.
  func change(_ change: (inout Configuration) -> Void) throws(WatchdogError) {
    let refusal: WatchdogError? = state.withLock { state in
      do throws(WatchdogError) { state.base = try state.base.changed(change) } catch { return error }
      update(&state)
      return nil
    }
    if let refusal { throw refusal }
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
    state.withLock { state in
      guard content != state.content else { return }
      state.content = content
      update(&state)
    }
  }

  private func update(_ state: inout State) {
    let (configuration, found) = environment.applied(to: state.base, content: state.content, running: state.current)
    let problems = found.map { printable($0) }
    Self.say(problems.filter { !state.problems.contains($0) })
    state.current = configuration
    state.problems = problems
    state.apply?(configuration)
  }

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
  /// - Parameter change: Changes the configuration of the code. Must not use the watchdog.
  /// - Throws: ``WatchdogError/Code/fixedWhileRunning`` when `change` touches a setting that is fixed while the
  ///   watchdog runs, ``WatchdogError/Code/invalidConfiguration`` when the result is invalid,
  ///   ``WatchdogError/Code/notInThisProcess``. Nothing is changed then.
  public func reconfigure(_ change: (inout Configuration) -> Void) throws(WatchdogError) {
    if !isDisabled { _ = try running() }
    try live.change(change)
  }
}

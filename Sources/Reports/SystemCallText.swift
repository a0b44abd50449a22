import CulpritBlame

/// System calls that threads wait in, in words.
enum SystemCallText {
  /// "futex", "clock_nanosleep (restarted)"; `nil` if none is known.
  static func of(_ waiting: Waiting, _ architecture: String) -> String? {
    guard let call = waiting.systemCall else { return waiting.isRestarted ? "a restarted system call" : nil }
    return name(of: call, architecture: architecture) + (waiting.isRestarted ? " (restarted)" : "")
  }

  /// The name of the call with `number`, or its number where the table lacks it.
  static func name(of number: Int32, architecture: String) -> String {
    SystemCalls.name(of: number, architecture: architecture) ?? "system call \(number)"
  }
}

/// Describes the system calls in which threads wait.
enum SystemCallText {
  /// Returns a name such as "futex" or "clock_nanosleep (restarted)"; `nil` if no call is known.
  static func of(_ call: Int32?, isRestarted: Bool, architecture: String) -> String? {
    guard let call else { return isRestarted ? "a restarted system call" : nil }
    return name(of: call, architecture: architecture) + (isRestarted ? " (restarted)" : "")
  }

  /// Returns the name of the call `number`, or its number if it has no known name.
  static func name(of number: Int32, architecture: String) -> String {
    SystemCalls.name(of: number, architecture: architecture) ?? "system call \(number)"
  }
}

enum SystemCallText {
  static func of(_ call: Int32?, isRestarted: Bool, architecture: String) -> String? {
    guard let call else { return isRestarted ? "a restarted system call" : nil }
    return name(of: call, architecture: architecture) + (isRestarted ? " (restarted)" : "")
  }

  static func name(of number: Int32, architecture: String) -> String {
    SystemCalls.name(of: number, architecture: architecture) ?? "system call \(number)"
  }
}

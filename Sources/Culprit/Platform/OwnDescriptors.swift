import CCulpritLinux

/// Runs file operations on a thread with a separate descriptor table, if the kernel supports it.
///
/// An application might close all descriptors that it does not know (closefrom(3)) during an operation, and reuse their
/// numbers.
enum OwnDescriptors {
  /// Runs `body`, which must not be application code.
  static func run<Result: Sendable>(_ body: @escaping @Sendable () -> Result) -> Result {
    let result = Promise<Result>()
    let thread = try? PosixThread(name: "culprit-files") {
      _ = clinux_descriptor_take_own_table()
      result.fulfill(body())
    }
    guard let thread else { return body() }
    thread.detach()
    return result.wait(until: .max) ?? body()
  }
}

import CCulpritLinux

/// Work with files that is done where nobody else has descriptors.
///
/// A service may close every descriptor that it does not know (closefrom(3)) and open files of its own in the midst of
/// it: what is read, written and closed by its number then is the service's. A thread with a table of its own has
/// numbers that the service does not have. Where the kernel has no such threads, the work is done all the same.
enum OwnDescriptors {
  /// Does `body`, which runs none of the application's code, on a thread with descriptors of its own, and waits for it.
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

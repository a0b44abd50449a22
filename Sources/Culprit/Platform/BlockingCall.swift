enum BlockingCall {
  static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
    await withCheckedContinuation { continuation in
      do throws(WatchdogError) {
        try PosixThread(name: "culprit-async", stack: .application) { continuation.resume(returning: body()) }.detach()
      } catch {
        // No thread can be started.
        continuation.resume(returning: body())
      }
    }
  }
}

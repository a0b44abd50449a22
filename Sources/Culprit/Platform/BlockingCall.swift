/// Runs what blocks on a thread of its own.
enum BlockingCall {
  static func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
    await withCheckedContinuation { continuation in
      do throws(PosixThreadError) {
        try PosixThread(name: "culprit-async") { continuation.resume(returning: body()) }.detach()
      } catch {
        // No thread is to be had.
        continuation.resume(returning: body())
      }
    }
  }
}

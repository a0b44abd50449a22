import Glibc

private final class Body {
  let run: @Sendable () -> Void
  init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

/// Runs `run` on a detached thread. Returns whether the thread was started.
func startThread(_ run: @escaping @Sendable () -> Void) -> Bool {
  let body = Unmanaged.passRetained(Body(run))
  var thread = pthread_t()
  let error = pthread_create(
    &thread,
    nil,
    { argument in
      // SAFETY: balances the retain above.
      if let argument { Unmanaged<Body>.fromOpaque(argument).takeRetainedValue().run() }
      return nil
    },
    body.toOpaque()
  )
  guard error == 0 else {
    body.release()
    return false
  }
  pthread_detach(thread)
  return true
}

import CulpritSymbols
import Glibc

/// The servers in DEBUGINFOD_URLS. They are asked where nothing is found on this machine; one that has said nothing for a
/// while is not waited for, nor are the others that would be asked after it.
let servers = DebugInfoServers(patience: .silence(.seconds(15)), start: startThread) { message in
  switch message {
  case .isFetching(let id):
    output.error("asking the servers in DEBUGINFOD_URLS for debug information (build-id \(id)); this may take a while")
  case .gaveUp: output.error("the servers in DEBUGINFOD_URLS have sent nothing for 15 s; going on without them")
  }
}

/// Ends the program, after what the servers were asked for has been given up: the client's library must not be at work while
/// what it stands on is taken down.
func end(_ status: Int32) -> Never {
  servers?.cancel()
  servers?.finish(within: .seconds(3))
  exit(status)
}

private final class Body {
  let run: @Sendable () -> Void
  init(_ run: @escaping @Sendable () -> Void) { self.run = run }
}

private func startThread(_ run: @escaping @Sendable () -> Void) -> Bool {
  let body = Unmanaged.passRetained(Body(run))
  var thread = pthread_t()
  let error = pthread_create(
    &thread,
    nil,
    { argument in
      // SAFETY: retained above for this call alone.
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

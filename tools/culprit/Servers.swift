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

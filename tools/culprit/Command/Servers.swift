import CulpritSymbols
import Glibc

/// The servers in DEBUGINFOD_URLS. After 15 s without data, the command stops waiting and makes no more requests.
let servers = DebugInfoServers(patience: .silence(.seconds(15)), start: startThread) { message in
  switch message {
  case .isFetching(let id):
    output.error("requesting debug information from DEBUGINFOD_URLS (build-id \(id)); this can take a while")
  case .gaveUp: output.error("no response from DEBUGINFOD_URLS for 15 s; continuing without it")
  }
}

/// Cancels server requests and ends the program. The client library must not run while its libraries are torn down.
func end(_ status: Int32) -> Never {
  servers?.cancel()
  servers?.finish(within: .seconds(3))
  exit(status)
}

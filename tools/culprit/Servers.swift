import CulpritSymbols
import Glibc

/// The servers in DEBUGINFOD_URLS, which are asked for files missing on this machine. After 15 s without data, neither
/// the current request nor any later one is waited for.
let servers = DebugInfoServers(patience: .silence(.seconds(15)), start: startThread) { message in
  switch message {
  case .isFetching(let id):
    output.error("asking the servers in DEBUGINFOD_URLS for debug information (build-id \(id)); this may take a while")
  case .gaveUp: output.error("the servers in DEBUGINFOD_URLS have sent nothing for 15 s; going on without them")
  }
}

/// Ends the program after cancelling the server requests. The client library must not be running while the libraries it
/// uses are torn down.
func end(_ status: Int32) -> Never {
  servers?.cancel()
  servers?.finish(within: .seconds(3))
  exit(status)
}

import ExampleServer
import Glibc

// The example service without Culprit, neither linked nor running: what it costs is measured against this.

do {
  let server = try HTTPServer(port: 0, catalog: Catalog(documents: 2_000))
  let line = Array("listening on 127.0.0.1:\(server.port)\n".utf8)
  _ = write(STDOUT_FILENO, line, line.count)
  server.run { turn in turn() }
} catch {
  let line = Array("example-service-unwatched: \(error)\n".utf8)
  _ = write(STDERR_FILENO, line, line.count)
  exit(1)
}

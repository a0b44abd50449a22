import CulpritOptions
import ExampleServer
import Glibc

// The example service without the watchdog and its library, as a baseline of costs. Accepts the options of the watched
// service and ignores those for the watchdog.

let output = CommandOutput(command: "example-service-unwatched")

do {
  let parsed = try ServiceOptions.table.parse(CommandLine.arguments.dropFirst())
  let server = try HTTPServer(
    port: UInt16(try parsed.number("port", in: 0...65535) ?? 0),
    catalog: Catalog(documents: 2_000)
  )
  output.print("listening on 127.0.0.1:\(server.port)\n")
  server.run { turn in turn() }
} catch let error as UsageError {
  output.usage(error)
} catch {
  output.error("\(error)")
  exit(1)
}

import CulpritOptions
import ExampleServer
import Glibc

// The example service without Culprit, as a baseline of costs. It accepts the options of the watched service, but
// ignores the options of the watchdog.

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

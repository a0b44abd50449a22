import Culprit
import CulpritOptions
import ExampleServer
import Glibc

// A small HTTP service on loopback that links Culprit. It has one event loop, a catalog in memory, and a request that
// wrongly blocks the loop (POST /rebuild).

let output = CommandOutput(command: "example-service")

do {
  let parsed = try ServiceOptions.table.parse(CommandLine.arguments.dropFirst())
  if parsed.has("help") {
    output.print(ServiceOptions.table.help())
    exit(0)
  }
  let threshold = try parsed.number("threshold", in: 10...3_600_000) ?? 4500
  var configuration = Watchdog.Configuration(
    threshold: .milliseconds(threshold),
    interval: .milliseconds(min(250, threshold)),
    directory: parsed.value("directory")
  )
  configuration.reporting.width = try parsed.number("width", in: 40...1000) ?? 100
  let watchdog = try Watchdog(configuration)
  watchdog.onStall { report in output.print(report.description) }
  let loop = try watchdog.watchLoop(named: "http")
  let server = try HTTPServer(
    port: UInt16(try parsed.number("port", in: 0...65535) ?? 0),
    catalog: Catalog(documents: 2_000)
  )
  output.print("listening on 127.0.0.1:\(server.port)\n")
  server.run { turn in
    loop.begin()
    turn()
    loop.end()
  }
  watchdog.stop()
} catch let error as UsageError {
  output.usage(error)
} catch {
  output.error("\(error)")
  exit(1)
}

import Culprit
import CulpritOptions
import ExampleServer
import Glibc

// A small HTTP service on loopback, as a service that links Culprit looks: one event loop, a catalog in memory, and a
// request (POST /rebuild) that does on the loop what should never be done there.

let table = OptionTable(
  usage: ["example-service [OPTION]..."],
  summary: "Serves a small catalog over HTTP on 127.0.0.1 until SIGTERM.",
  options: [
    CommandOption("port", letter: "p", argument: "PORT", help: "port to listen on; default: any free one"),
    CommandOption(
      "directory",
      letter: "d",
      argument: "DIR",
      help: "where stalls are saved; default: nowhere"
    ),
    CommandOption("threshold", letter: "t", argument: "MS", help: "what a turn of the loop may take, in ms; 4500"),
    CommandOption("width", letter: "w", argument: "COLUMNS", help: "length of a line in reports; 100"),
  ],
  epilogue: """
    Requests:
      GET /search?q=WORD   documents that contain WORD
      GET /health          "ok"
      POST /rebuild        builds the index anew (4 s) and writes a snapshot (1 s), on the event loop
    """
)

let output = CommandOutput(command: "example-service")

do {
  let parsed = try table.parse(CommandLine.arguments.dropFirst())
  if parsed.has("help") {
    output.print(table.help)
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

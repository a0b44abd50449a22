import CulpritOptions

/// Command-line options of both variants of the example service, which differ only in the watchdog.
public enum ServiceOptions {
  /// The options.
  package static let table = OptionTable(
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
}

import CulpritOptions

/// Command-line options of the example service. The watched and the unwatched variant share them.
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
        help: "directory for saved stalls; default: none"
      ),
      CommandOption("threshold", letter: "t", argument: "MS", help: "threshold of a loop turn, in ms; default: 4500"),
      CommandOption("width", letter: "w", argument: "COLUMNS", help: "length of a line in reports; default: 100"),
    ],
    epilogue: """
      Requests:
        GET /search?q=WORD   documents that contain WORD
        GET /health          "ok"
        POST /rebuild        rebuilds the index (4 s) and writes a snapshot (1 s), on the event loop
      """
  )
}

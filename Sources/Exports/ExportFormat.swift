/// A format that other programs read.
package enum ExportFormat: String, CaseIterable, Sendable {
  /// A line for each stack: its functions, and its milliseconds (flamegraph.pl and its relatives).
  case collapsed
  /// JSON for speedscope.
  case speedscope
  /// profile.proto in gzip, for pprof and what reads it.
  case pprof
  /// JSON for the Firefox Profiler.
  case firefox
  /// Trace events in JSON, for Perfetto and chrome://tracing.
  case chrome
  /// Profiles of OpenTelemetry, in protobuf.
  case otlp

  /// The format called `name`; "perfetto" is one of them, too.
  package init?(name: String) {
    self.init(rawValue: name == "perfetto" ? "chrome" : name)
  }

  /// The endings of names that tell a format, in lower case.
  package static let endings: [(text: String, format: ExportFormat)] = [
    (".folded", .collapsed), (".collapsed", .collapsed), (".txt", .collapsed), (".speedscope.json", .speedscope),
    (".speedscope", .speedscope), (".pb.gz", .pprof), (".pprof", .pprof), (".firefox.json", .firefox),
    (".trace.json", .chrome), (".otlp", .otlp), (".otlp.pb", .otlp),
  ]

  /// The format that a file called `path` is expected to have; `nil` where its name does not tell.
  package init?(path: String) {
    let path = path.lowercased()
    guard let format = Self.endings.first(where: { path.hasSuffix($0.text) })?.format else { return nil }
    self = format
  }

  /// Whether it is no text, and nothing for a terminal.
  package var isBinary: Bool { self == .pprof || self == .otlp }
}

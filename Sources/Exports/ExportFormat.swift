/// A file format of other profiling tools.
package enum ExportFormat: String, CaseIterable, Sendable {
  /// One line per stack with its functions and milliseconds, for flamegraph.pl, speedscope and compatible tools.
  case collapsed
  /// Gzipped profile.proto, for pprof and compatible tools.
  case pprof
  /// The Firefox Profiler's JSON.
  case firefox
  /// JSON trace events, for Perfetto and chrome://tracing.
  case chrome
  /// The OpenTelemetry profiles signal, in protobuf.
  case otlp

  /// Creates the format called `name`, which is a raw value or the alias "perfetto". Returns `nil` for other names.
  package init?(name: String) {
    self.init(rawValue: name == "perfetto" ? "chrome" : name)
  }

  /// File name suffixes and their formats, in lower case.
  package static let endings: [(text: String, format: ExportFormat)] = [
    (".folded", .collapsed), (".collapsed", .collapsed), (".txt", .collapsed), (".pb.gz", .pprof),
    (".pprof", .pprof), (".firefox.json", .firefox), (".trace.json", .chrome), (".otlp", .otlp), (".otlp.pb", .otlp),
  ]

  /// Creates the format that the suffix of `path` implies. Returns `nil` when the suffix implies none.
  package init?(path: String) {
    let path = path.lowercased()
    guard let format = Self.endings.first(where: { path.hasSuffix($0.text) })?.format else { return nil }
    self = format
  }

  /// Whether the format is binary and unsuitable for a terminal.
  package var isBinary: Bool { self == .pprof || self == .otlp }
}

/// A file format of other profiling tools.
package enum ExportFormat: String, CaseIterable, Sendable {
  /// Lines with a stack and its milliseconds, for flamegraph.pl and speedscope.
  case collapsed
  /// Gzipped profile.proto, for pprof.
  case pprof
  case firefox
  /// JSON trace events, for Perfetto and chrome://tracing.
  case chrome
  /// The OpenTelemetry profiles signal, in protobuf.
  case otlp

  /// Creates the format with this name or alias.
  package init?(name: String) {
    self.init(rawValue: name == "perfetto" ? "chrome" : name)
  }

  /// Lower-case suffixes of file names and their formats.
  package static let endings: [(text: String, format: ExportFormat)] = [
    (".folded", .collapsed), (".collapsed", .collapsed), (".txt", .collapsed), (".pb.gz", .pprof),
    (".pprof", .pprof), (".firefox.json", .firefox), (".trace.json", .chrome), (".otlp", .otlp), (".otlp.pb", .otlp),
  ]

  /// Creates the format that the suffix of `path` implies.
  package init?(path: String) {
    let path = path.lowercased()
    guard let format = Self.endings.first(where: { path.hasSuffix($0.text) })?.format else { return nil }
    self = format
  }

  /// Whether the format is unsuitable for a terminal.
  package var isBinary: Bool { self == .pprof || self == .otlp }
}

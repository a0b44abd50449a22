import CulpritBlame
import CulpritStallRecord

protocol ExportWriter {
  /// Whether the export contains blame, which takes time to compute.
  static var includesBlame: Bool { get }
  /// Starts a recording. The stalls that follow belong to it.
  mutating func begin(_ recording: ExportedRecording) throws
  mutating func add(_ stall: ExportedStall) throws
  mutating func finish() throws
}

/// Converts recordings to another profiling tool's format.
///
/// Only distinct stacks and names stay in memory. An export without stalls writes nothing.
package struct Exporter {
  private var writer: any ExportWriter
  private let isRaw: Bool
  /// Whether the export computes blame. Blame needs samples.
  package var includesBlame: Bool { type(of: writer).includesBlame }
  package private(set) var stallCount = 0

  /// Creates an export.
  ///
  /// - Parameters:
  ///   - format: The format.
  ///   - isRaw: Whether formats with addresses omit names.
  ///   - version: This program's version.
  ///   - out: Writes bytes to the destination.
  package init(_ format: ExportFormat, isRaw: Bool = false, version: String, to out: @escaping ([UInt8]) throws -> Void)
  {
    self.isRaw = isRaw
    let sink = ByteSink(out)
    switch format {
    case .collapsed: writer = CollapsedWriter(sink)
    case .pprof: writer = PprofWriter(sink, isRaw: isRaw)
    case .firefox: writer = FirefoxWriter(sink, version: version)
    case .chrome: writer = ChromeWriter(sink, version: version)
    case .otlp: writer = OTLPWriter(sink, version: version)
    }
  }

  /// Writes the stalls of `recording`.
  ///
  /// - Parameters:
  ///   - recording: The recording.
  ///   - logs: All samples of each stall, if `recording` contains only a selection.
  ///   - store: Storage for large profiles.
  ///   - rules: The rules for the application's own code.
  ///   - resolve: Symbolizes a frame, innermost inlined function first.
  /// - Throws: Errors of `out`.
  package mutating func add(
    _ recording: Recording,
    logs: [SampleLog]? = nil,
    store: (any OverflowStore)? = nil,
    rules: OwnershipRules = OwnershipRules(),
    resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) throws {
    guard !recording.stalls.isEmpty else { return }
    let stacks = ProfileStacks(recording, rules: rules, isRaw: isRaw, resolve: resolve)
    let exported = ExportedRecording(recording, stacks)
    try writer.begin(exported)
    for (place, stall) in recording.stalls.enumerated() {
      let blame =
        includesBlame
        ? StallReport(
          of: stall.withSamples(Stall.samplesForReport),
          in: recording,
          rules: rules,
          architecture: recording.process?.architecture ?? "",
          resolve: resolve
        ) : nil
      let profile = StallProfile(stall, stacks, log: logs?[place], store: store)
      try writer.add(ExportedStall(recording: exported, profile: profile, blame: blame))
      stallCount += 1
    }
  }

  /// Writes the end of the export if it contains stalls.
  ///
  /// - Throws: Errors of `out`.
  package mutating func finish() throws {
    guard stallCount > 0 else { return }
    try writer.finish()
  }
}

import CulpritBlame
import CulpritStallRecord

/// Writes one export of any number of stalls.
protocol ExportWriter {
  /// Whether it tells who is to blame, which takes some time to find out.
  static var tellsBlame: Bool { get }
  /// Begins with the stalls of another recording.
  mutating func begin(_ recording: ExportedRecording) throws
  /// Writes a stall of the recording that was begun last.
  mutating func add(_ stall: ExportedStall) throws
  /// Writes the end.
  mutating func finish() throws
}

/// Turns recordings into a file that other programs read.
///
/// Nothing is kept of a stall that has been written but its distinct stacks and names, and nothing is written before there is a stall.
package struct Exporter {
  private var writer: any ExportWriter
  private let isRaw: Bool
  /// Whether it tells who is to blame, and needs samples for it.
  package var tellsBlame: Bool { type(of: writer).tellsBlame }
  /// How many stalls have been written.
  package private(set) var stallCount = 0

  /// An export in `format`.
  ///
  /// - Parameters:
  ///   - format: The format.
  ///   - isRaw: Whether a format that has addresses gets these only, for its readers to look up names.
  ///   - version: The version of this program, where a file says by what it was written.
  ///   - out: Writes bytes to where the export goes.
  package init(_ format: ExportFormat, isRaw: Bool = false, version: String, to out: @escaping ([UInt8]) throws -> Void)
  {
    self.isRaw = isRaw
    let sink = ByteSink(out)
    switch format {
    case .collapsed: writer = CollapsedWriter(sink)
    case .speedscope: writer = SpeedscopeWriter(sink, version: version)
    case .pprof: writer = PprofWriter(sink, isRaw: isRaw)
    case .firefox: writer = FirefoxWriter(sink, version: version)
    case .chrome: writer = ChromeWriter(sink, version: version)
    case .otlp: writer = OTLPWriter(sink, version: version)
    }
  }

  /// Writes the stalls of `recording`.
  ///
  /// - Parameters:
  ///   - recording: What was observed.
  ///   - logs: Every sample of each stall, where the recording has not all of them.
  ///   - store: Where what is made of them goes when there is much of it.
  ///   - rules: What counts as the application's own code.
  ///   - resolve: Names a frame; the innermost function first where calls were inlined.
  /// - Throws: What writing the bytes throws.
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
        tellsBlame
        ? Blame(
          stall: stall.withSamples(Stall.samplesForReport),
          stacks: recording.stacks,
          rules: rules,
          architecture: recording.process?.architecture ?? "",
          resolve: resolve
        ) : nil
      let profile = StallProfile(stall, stacks, log: logs?[place], store: store)
      try writer.add(ExportedStall(recording: exported, profile: profile, blame: blame))
      stallCount += 1
    }
  }

  /// Writes the end, unless there was no stall.
  ///
  /// - Throws: What writing the bytes throws.
  package mutating func finish() throws {
    guard stallCount > 0 else { return }
    try writer.finish()
  }
}

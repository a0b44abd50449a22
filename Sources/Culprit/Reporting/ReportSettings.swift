import CCulpritLinux
import CCulpritObserver
import CulpritBlame
import CulpritReports
import CulpritStallRecord
import CulpritSymbols
import Glibc

struct ReportSettings: Sendable {
  var width: Int
  /// Approximate memory limit for symbol names, in bytes.
  var symbolMemory: Int
  /// Modules of the application in addition to the built package, and functions skipped as wrappers.
  private let ownModules, wrappers: [String]

  init(_ configuration: Configuration) {
    width = configuration.reporting.width
    symbolMemory = configuration.reporting.symbolBytesMax
    ownModules = configuration.reporting.ownModules
    wrappers = configuration.reporting.wrappers
  }

  /// `process` is `nil` for an earlier run.
  func symbolizer(
    of recording: Recording,
    process: Int32? = getpid(),
    servers: DebugInfoServers? = nil,
    files: SharedFiles? = nil
  ) -> Symbolizer {
    Symbolizer(
      modules: recording.modules,
      names: recording.names,
      process: process,
      search: DebugSearch(servers: servers),
      memoryMax: symbolMemory,
      unread: RemoteMounts().reasons(for: recording.modules.map(\.path)),
      shared: files
    )
  }

  /// Calls `pause` before each symbol, because a report takes long.
  func builder(
    _ recording: Recording,
    _ symbolizer: Symbolizer,
    pause: @escaping () -> Void = { clinux_fork_yield() }
  ) -> ReportBuilder {
    ReportBuilder(
      recording,
      rules: OwnershipRules(own: ownModules, wrappers: wrappers),
      architecture: String(cString: observer_machine_name()),
      resolve: { frame in
        pause()
        return symbolizer.resolve(frame)
      }
    )
  }

  func report(of stall: Stall, in recording: Recording, _ symbolizer: Symbolizer) -> StallReport {
    report(completing: builder(recording, symbolizer).analysis(of: stall), in: recording, symbolizer)
  }

  /// Returns the report of the stall under way in `recording`, which has no modules yet.
  func reportSoFar(_ recording: Recording) -> StallReport? {
    guard let stall = recording.stalls.first else { return nil }
    var recording = recording
    recording.modules = ModuleList.covering(recording.stacks)
    return report(of: stall, in: recording, symbolizer(of: recording))
  }

  /// `repeats` equal stalls were not reported.
  func report(
    completing analysis: StallReport,
    in recording: Recording,
    _ symbolizer: Symbolizer,
    repeats: Int = 0
  ) -> StallReport {
    var report = builder(recording, symbolizer).complete(analysis, repeats: repeats)
    report.width.value = width
    return report
  }

  func report(of all: AllThreads, _ stacks: [Stack]) -> ThreadsReport {
    let recording = Recording(process: nil, modules: ModuleList.covering(stacks), stacks: stacks)
    var report = builder(recording, symbolizer(of: recording)).threads(of: all)
    report.width.value = width
    return report
  }
}

extension StallEvent {
  init(_ recording: Recording, _ stall: Stall, isHang: Bool, _ settings: ReportSettings) {
    self.init(stall, of: recording.process, isHang: isHang) { settings.reportSoFar(recording) }
  }
}

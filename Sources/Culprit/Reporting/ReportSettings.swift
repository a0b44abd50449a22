import CCulpritLinux
import CCulpritObserver
import CulpritBlame
import CulpritReports
import CulpritStallRecord
import CulpritSymbols
import Glibc

/// How reports are made: of stalls that go on, that are over, and of those of earlier runs.
struct ReportSettings: Sendable {
  /// The length of a line.
  var width: Int
  /// How much memory names may take, in bytes, about.
  var symbolMemory: Int
  /// What the service counts as its own code beside the package that was built, and its own functions that are passed over.
  private let ownModules, wrappers: [String]

  /// As `configuration` says.
  init(_ configuration: Configuration) {
    width = configuration.reporting.width
    symbolMemory = configuration.reporting.symbolBytesMax
    ownModules = configuration.reporting.ownModules
    wrappers = configuration.reporting.wrappers
  }

  /// What names the addresses of `recording`, which is of the process `process` as long as that runs, and shares `files`
  /// with others.
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

  /// What makes the reports of `recording`, whose addresses `symbolizer` names.
  /// Calls `pause` before each name: a report takes long.
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

  /// The report of `stall`, which is in `recording`; of `repeats` like it no report was made.
  func report(
    of stall: Stall,
    in recording: Recording,
    _ symbolizer: Symbolizer,
    blame: Blame? = nil,
    repeats: Int = 0
  ) -> StallReport {
    var report = builder(recording, symbolizer).report(of: stall, blame: blame, repeats: repeats)
    report.width.characters = width
    return report
  }

  /// The report of all threads of this process, which were captured as `all` with `stacks`.
  func report(of all: AllThreads, _ stacks: [Stack]) -> ThreadsReport {
    let recording = Recording(process: nil, modules: ModuleList.covering(stacks), stacks: stacks)
    var report = builder(recording, symbolizer(of: recording)).threads(of: all)
    report.width.characters = width
    return report
  }
}

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
  /// What counts as the application's own code.
  var rules: OwnershipRules

  /// As `configuration` says.
  init(_ configuration: Configuration) {
    width = configuration.reportWidth
    symbolMemory = configuration.symbolMemory
    rules = OwnershipRules(own: configuration.ownModules, wrappers: configuration.wrappers)
  }

  /// What names the addresses of `recording`, which is of the process `process` as long as that runs.
  func symbolizer(
    of recording: Recording,
    process: Int32? = getpid(),
    servers: DebugInfoServers? = nil
  ) -> Symbolizer {
    Symbolizer(
      modules: recording.modules,
      names: recording.names,
      process: process,
      search: DebugSearch(servers: servers),
      memoryMax: symbolMemory,
      unread: RemoteModules.unread
    )
  }

  /// Who is to blame for `stall`, which is in `recording`.
  func blame(for stall: Stall, in recording: Recording, _ symbolizer: Symbolizer) -> Blame {
    Blame(stall: stall, stacks: recording.stacks, rules: rules, resolve: symbolizer.resolve)
  }

  /// The report of `stall`, which is in `recording`; of `repeats` like it no report was made.
  func report(
    of stall: Stall,
    in recording: Recording,
    _ symbolizer: Symbolizer,
    blame: Blame? = nil,
    repeats: Int = 0
  ) -> StallReport {
    StallReport(
      recording: recording,
      stall: stall,
      blame: blame ?? self.blame(for: stall, in: recording, symbolizer),
      others: recording.otherThreads(in: stall, rules: rules, resolve: symbolizer.resolve),
      repeats: repeats,
      width: width
    )
  }
}

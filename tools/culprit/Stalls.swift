import CCulpritLinux
import CulpritBlame
import CulpritCounting
import CulpritOptions
import CulpritReports
import CulpritStallRecord
import CulpritSymbols

/// The stalls in files and directories, as commands read them: chosen by their options, with names, each file of a program opened
/// once.
final class Stalls {
  /// By what names are found and code is owned.
  static let namingOptions = [
    CommandOption(
      "debug-dir",
      argument: "DIR",
      help: "look for the files that ran, or their debug information, in DIR too; may be repeated"
    ),
    CommandOption(
      "own",
      argument: "NAME",
      help: "count the module, package, library or path NAME as own code; may be repeated"
    ),
    CommandOption(
      "wrapper",
      argument: "NAME",
      help: "pass over the own function NAME, so that its caller is to blame; may be repeated"
    ),
  ]

  /// By what stalls are chosen.
  static let choosingOptions = [
    CommandOption(
      "since",
      argument: "TIME",
      help: "only stalls that began then or later: 2026-11-20, 2026-11-20T10:23:51Z, or 2h or 7d ago"
    ),
    CommandOption("until", argument: "TIME", help: "only stalls that began before"),
    CommandOption("source", argument: "NAME", help: "only stalls of the source NAME, or of the kind; may be repeated"),
    CommandOption("service", argument: "NAME", help: "only stalls of the executable NAME; may be repeated"),
    CommandOption("host", argument: "NAME", help: "only stalls of the host NAME; may be repeated"),
    CommandOption(
      "signature",
      argument: "DIGITS",
      help: "only stalls whose signature begins with DIGITS; may be repeated"
    ),
  ]

  /// A stall that was read.
  struct Read {
    var stall: Stall
    var report: StallReport
    var builder: ReportBuilder
  }

  /// Which stalls are wanted.
  let selection: StallSelection
  private let search: DebugSearch
  private let own: [String]
  private let wrappers: [String]
  private let shared = SharedFiles()

  /// What the options in `parsed` say.
  ///
  /// - Throws: ``UsageError`` for a time that is none.
  init(_ parsed: OptionTable.Arguments) throws(UsageError) {
    search = DebugSearch(directories: parsed.values("debug-dir"), servers: servers)
    own = parsed.values("own")
    wrappers = parsed.values("wrapper")
    var selection = StallSelection()
    selection.since = try Self.time("since", parsed)
    selection.until = try Self.time("until", parsed)
    selection.sources = parsed.values("source")
    selection.services = parsed.values("service")
    selection.hosts = parsed.values("host")
    selection.signatures = parsed.values("signature")
    self.selection = selection
  }

  /// The time now.
  static var now: WallTime { WallTime(nanosecondsSince1970: clinux_clock_wall_ns()) }

  private static func time(_ name: String, _ parsed: OptionTable.Arguments) throws(UsageError) -> WallTime? {
    guard let text = parsed.value(name) else { return nil }
    guard let time = WallTime(argument: text, now: now) else {
      throw UsageError(
        "--\(name) takes a time such as 2026-11-20T10:23:51Z, 2026-11-20 or 2h (ago), not \"\(text)\""
      )
    }
    return time
  }

  /// Gives each file that `files` are and the wanted stalls in it to `body`. Problems go to standard error.
  ///
  /// - Parameters:
  ///   - files: The files.
  ///   - withThreads: Whether reports have the other threads, whose names take most of the time.
  ///   - body: Gets the name of the file, what it holds, and the stalls: none where none is wanted.
  /// - Returns: Whether there was no problem.
  func forEach(
    _ files: Expansion,
    withThreads: Bool,
    _ body: (_ name: String, _ recording: Recording, _ stalls: [Read]) -> Void
  ) -> Bool {
    // Nothing to read is not standard input.
    guard files.isWhole || !files.paths.isEmpty else { return false }
    return forEachStallFile(files.paths, found: files.found) { name, file in
      let process = file.recording.process
      // What the service counts as its own is its own here, too.
      let rules = OwnershipRules(
        own: (process?.ownModules ?? []) + own,
        wrappers: (process?.wrappers ?? []) + wrappers
      )
      let symbolizer = Symbolizer(
        modules: file.recording.modules,
        names: file.recording.names,
        search: search,
        shared: shared
      )
      let builder = ReportBuilder(file.recording, rules: rules, resolve: symbolizer.resolve)
      var read: [Read] = []
      for var stall in file.recording.stalls where selection.includes(stall, of: process) {
        // Of a pool whose threads were not followed they are the samples.
        if !withThreads, stall.source.kind != .pool { stall.others = nil }
        let report = builder.report(of: stall)
        if selection.includes(signature: report.signature) {
          read.append(Read(stall: stall, report: report, builder: builder))
        }
      }
      body(name, file.recording, read)
    } && files.isWhole
  }

  /// What is to be counted of the wanted stalls in `operands`: each stall once, the newest first; and whether all could be read.
  func counted(_ operands: [String]) throws -> (stalls: [CountedStall], isWhole: Bool) {
    var stalls: [CountedStall] = []
    let isWhole = forEach(try Expansion(operands), withThreads: false) { _, _, read in
      stalls += read.map { CountedStall($0.report) }
    }
    return (stalls.merged(), isWhole)
  }
}

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
      values: .directory,
      isRepeatable: true,
      help: "look for the files that ran, or their debug information, in DIR too"
    ),
    CommandOption(
      "own",
      argument: "NAME",
      isRepeatable: true,
      help: "count the module, package, library or path NAME as own code"
    ),
    CommandOption(
      "wrapper",
      argument: "NAME",
      isRepeatable: true,
      help: "pass over the own function NAME, so that its caller is to blame"
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
    CommandOption(
      "source",
      argument: "NAME",
      isRepeatable: true,
      help: "only stalls of the source NAME, or of the kind"
    ),
    CommandOption("service", argument: "NAME", isRepeatable: true, help: "only stalls of the executable NAME"),
    CommandOption("host", argument: "NAME", isRepeatable: true, help: "only stalls of the host NAME"),
    CommandOption(
      "signature",
      argument: "DIGITS",
      isRepeatable: true,
      help: "only stalls whose signature begins with DIGITS"
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
    return forEachRecording(files.paths, found: files.found, samples: Stall.samplesForReport) {
      name,
      recording,
      rules,
      resolve in
      let builder = ReportBuilder(recording, rules: rules, resolve: resolve)
      var read: [Read] = []
      for var stall in recording.stalls where selection.includes(stall, of: recording.process) {
        // Of a pool whose threads were not followed they are the samples.
        if !withThreads, stall.source.kind != .pool { stall.others = nil }
        let report = builder.report(of: stall)
        if selection.includes(signature: report.signature) {
          read.append(Read(stall: stall, report: report, builder: builder))
        }
      }
      body(name, recording, read)
    } && files.isWhole
  }

  /// Gives each of `paths` as a recording to `body`, with whose code is the application's and what names its addresses. Problems go to
  /// standard error. Those that are in `found` were found in a directory. Of more than `samples` of a stall some are left
  /// out. Returns whether there was no problem.
  func forEachRecording(
    _ paths: [String],
    found: Set<String>,
    samples: Int = .max,
    _ body: (
      _ name: String, _ recording: Recording, OwnershipRules, _ resolve: @escaping (StackFrame) -> [ResolvedFrame]
    )
      -> Void
  ) -> Bool {
    forEachStallFile(paths, found: found, samples: samples) { name, file in
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
      body(name, file.recording, rules, symbolizer.resolve)
    }
  }

  /// `recording` with the wanted stalls only.
  func chosen(
    of recording: Recording,
    _ rules: OwnershipRules,
    _ resolve: @escaping (StackFrame) -> [ResolvedFrame]
  ) -> Recording {
    var chosen = recording
    chosen.stalls = recording.stalls.filter { selection.includes($0, of: recording.process) }
    // Who is to blame is worked out where it is asked for.
    guard !selection.signatures.isEmpty else { return chosen }
    let builder = ReportBuilder(recording, rules: rules, resolve: resolve)
    chosen.stalls.removeAll {
      !selection.includes(signature: builder.report(of: $0.withSamples(Stall.samplesForReport)).signature)
    }
    return chosen
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

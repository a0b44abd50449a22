import CCulpritLinux
import CulpritBlame
import CulpritCounting
import CulpritOptions
import CulpritReports
import CulpritStallRecord
import CulpritSymbols

/// The stalls in files and directories, as commands read them: chosen by their options, with names, each file of a program opened
/// once by each thread.
struct Stalls: Sendable {
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
    CommandOption(
      "service",
      argument: "NAME",
      isRepeatable: true,
      help: "only stalls of the executable NAME, or without one: unknown"
    ),
    CommandOption(
      "host",
      argument: "NAME",
      isRepeatable: true,
      help: "only stalls of the host NAME, or without one: unknown"
    ),
    CommandOption(
      "build",
      argument: "DIGITS",
      isRepeatable: true,
      help: "only stalls of executables whose build-id begins with DIGITS, or is not known: unknown"
    ),
    CommandOption(
      "label",
      argument: "TEXT",
      isRepeatable: true,
      help: "only stalls of work that was called TEXT at some time"
    ),
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
    /// Every sample of the stall, where that was asked for.
    var log: SampleLog?
  }

  /// What has come of reading files.
  struct Reading {
    /// Whether there was no problem.
    var isWhole = true
    /// How many files could be read, if only in part.
    var fileCount = 0
    /// What there was to choose from.
    var offer = StallOffer()
    /// How many stalls the options chose.
    var chosenCount = 0
    /// The stalls that an export has so far.
    private var exported: Set<[String]> = []

    /// Nothing has been read yet, of what `isWhole`.
    init(isWhole: Bool = true) { self.isWhole = isWhole }

    /// Whether `stall` of `process` is not among those that have been exported; it is from now on. A directory and a copy of it have
    /// the same ones.
    mutating func insert(_ stall: Stall, of process: ObservedProcess?) -> Bool {
      exported.insert([process?.host ?? "", stall.reportID(in: process)]).inserted
    }
  }

  /// By what names are found and code is owned.
  private struct Naming: Sendable {
    var search: DebugSearch
    var own: [String]
    var wrappers: [String]

    /// Whose code is the application's in `file`, and what names its addresses, with those files open that are `shared`.
    func of(_ file: StallFile, _ shared: SharedFiles) -> (OwnershipRules, (StackFrame) -> [ResolvedFrame]) {
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
      return (rules, symbolizer.resolve)
    }
  }

  /// Which stalls are wanted.
  let selection: StallSelection
  private let naming: Naming

  /// What the options in `parsed` say.
  ///
  /// - Throws: ``UsageError`` for a time that is none, or a name; ``InputError`` for a directory that cannot be used.
  init(_ parsed: OptionTable.Arguments) throws {
    for (option, argument) in [("own", "NAME"), ("wrapper", "NAME"), ("label", "TEXT")]
    where parsed.values(option).contains("") {
      throw UsageError("--\(option) takes a \(argument), and not an empty one")
    }
    naming = Naming(
      search: DebugSearch(directories: try debugDirectories(parsed), servers: servers),
      own: parsed.values("own"),
      wrappers: parsed.values("wrapper")
    )
    var selection = StallSelection()
    let now = Self.now
    selection.since = try Self.time("since", parsed, now)
    selection.until = try Self.time("until", parsed, now)
    if let since = selection.since, let until = selection.until, since > until {
      throw UsageError(
        "--since=\(parsed.value("since") ?? "") is later than --until=\(parsed.value("until") ?? ""): no stall began "
          + "after \(since) and before \(until)"
      )
    }
    selection.sources = parsed.values("source")
    selection.services = parsed.values("service")
    selection.hosts = parsed.values("host")
    selection.builds = try parsed.values("build").map(Self.build)
    selection.labels = parsed.values("label")
    selection.signatures = try parsed.values("signature").map(Self.signature)
    self.selection = selection
  }

  /// The first digits of signatures that `text` is, as they are printed: in lower case.
  private static func signature(_ text: String) throws(UsageError) -> String {
    guard !text.isEmpty, text.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
      throw UsageError("--signature takes the first digits of a signature, such as 1f3a, not \"\(text)\"")
    }
    guard text.count <= Signature.digitCount else {
      throw UsageError("--signature takes up to \(Signature.digitCount) digits, not the \(text.count) of \"\(text)\"")
    }
    return text.lowercased()
  }

  /// The first digits of a build-id that `text` is, in lower case.
  private static func build(_ text: String) throws(UsageError) -> String {
    guard text != StallSelection.unknown else { return text }
    guard !text.isEmpty, text.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
      throw UsageError("--build takes the first digits of a build-id, such as 1f3a, or unknown, not \"\(text)\"")
    }
    return text.lowercased()
  }

  /// The time now.
  static var now: WallTime { WallTime(nanosecondsSince1970: clinux_clock_wall_ns()) }

  private static func time(
    _ name: String,
    _ parsed: OptionTable.Arguments,
    _ now: WallTime
  ) throws(UsageError) -> WallTime? {
    guard let text = parsed.value(name) else { return nil }
    guard let time = WallTime(argument: text, now: now) else {
      throw UsageError(
        "--\(name) takes a time such as 2026-11-20T10:23:51Z, 2026-11-20 or 2h (ago), not \"\(text)\""
      )
    }
    return time
  }

  /// Gives what `make` has made of each file that `files` are to `use`. Problems go to standard error.
  ///
  /// - Parameters:
  ///   - files: The files.
  ///   - withThreads: Whether reports have the other threads, whose names take most of the time.
  ///   - store: Where every sample of each stall goes; `nil` where reports are enough, which are made of a choice of them.
  ///   - tellEmpty: Gets the name of each file in which no stall was recorded; by default it goes to standard error.
  ///   - make: Gets the name of the file, and the stalls: none where none is wanted. Called by several threads at once.
  ///   - use: Gets what comes of that, in the order of the files.
  /// - Returns: What has come of it.
  func forEach<Output>(
    _ files: Expansion,
    withThreads: Bool,
    store: (any OverflowStore)? = nil,
    tellEmpty: (_ name: String) -> Void = Self.tellEmpty,
    _ make: @escaping @Sendable (_ name: String, _ stalls: [Read]) -> Output,
    _ use: (Output) -> Void
  ) -> Reading {
    var reading = Reading(isWhole: files.isWhole)
    // Nothing to read is not standard input.
    guard files.isWhole || !files.paths.isEmpty else { return reading }
    let (selection, naming, found) = (selection, naming, files.found)
    let paths = files.paths.isEmpty ? ["-"] : files.paths
    Progress.shared.begin(reading: files.paths)
    OrderedWork.forEach(
      paths,
      // What is open already is read in the order in which it is named, and servers are asked one thing after the other.
      isAlone: paths.contains { isInherited($0) } || naming.search.servers != nil,
      { SharedFiles() },
      { shared, path in
        let samples = Stall.samplesForReport
        let extent = StallFile.Extent(samples: samples, logsSamples: store != nil, store: store)
        return readStallFile(path, isFound: found.contains(path), extent) { name, file in
          let recording = file.recording
          let (rules, resolve) = naming.of(file, shared)
          let builder = ReportBuilder(recording, rules: rules, resolve: resolve)
          var read: [Read] = []
          var offer = StallOffer()
          let origin = StallOrigin(recording)
          for (place, recorded) in recording.stalls.enumerated() {
            var stall = recorded
            offer.add(stall, from: origin)
            guard selection.includes(stall, from: origin), Self.hasLabel(stall, selection, &offer) else { continue }
            // Of a pool whose threads were not followed they are the samples.
            if !withThreads, stall.source.kind != .pool { stall.others = nil }
            let report = builder.report(of: stall)
            offer.add(signature: report.signature)
            if selection.includes(signature: report.signature) {
              let log = store == nil ? nil : file.logs[place]
              read.append(Read(stall: stall, report: report, builder: builder, log: log))
            }
          }
          return (name: name, offer: offer, chosenCount: read.count, made: make(name, read))
        }
      },
      { result in
        if let output = result.output {
          reading.fileCount += 1
          reading.offer.add(output.offer)
          reading.chosenCount += output.chosenCount
          if output.offer.count == 0 { tellEmpty(output.name) }
          use(output.made)
        }
        result.tellProblems()
        reading.isWhole = reading.isWhole && result.problems.isEmpty
      }
    )
    return reading
  }

  /// Says that no stall was recorded in the file called `name`.
  static func tellEmpty(_ name: String) { output.error("\(name): no stall was recorded") }

  /// Says on standard error where there were stalls and the options chose none, and what there was to choose.
  ///
  /// - Parameters:
  ///   - reading: What has come of reading them.
  ///   - side: What was read, where there is more than one such reading.
  func tellWhereNoneIsChosen(_ reading: Reading, in side: String? = nil) {
    guard reading.offer.count > 0, reading.chosenCount == 0 else { return }
    output.error((side.map { "\($0): " } ?? "") + reading.offer.refusal(of: selection))
  }

  /// Gives each of `paths` to `body`, so much of it as `extent` says, with whose code is the application's and what names its addresses.
  /// Problems go to standard error. Those that are in `found` were found in a directory. Returns whether there was no problem.
  func forEachRecording(
    _ paths: [String],
    found: Set<String>,
    _ extent: StallFile.Extent,
    _ body: (_ name: String, _ file: StallFile, OwnershipRules, _ resolve: @escaping (StackFrame) -> [ResolvedFrame])
      -> Void
  ) -> Bool {
    let shared = SharedFiles()
    return forEachStallFile(paths, found: found, extent) { name, file in
      let (rules, resolve) = naming.of(file, shared)
      body(name, file, rules, resolve)
    }
  }

  /// What exports need of a file: what a report needs, where one is made, and each sample for what is drawn of it, where much goes to
  /// `store`.
  func extentForExports(_ store: any OverflowStore, tellsBlame: Bool) -> StallFile.Extent {
    let needsSamples = tellsBlame || !selection.signatures.isEmpty || !selection.labels.isEmpty
    return StallFile.Extent(samples: needsSamples ? Stall.samplesForReport : 1, logsSamples: true, store: store)
  }

  /// What `file`, which is called `name`, has of the wanted stalls that `reading` has not come by yet, with every sample of each. It
  /// counts them.
  func chosen(
    of file: StallFile,
    _ name: String,
    _ rules: OwnershipRules,
    _ resolve: @escaping (StackFrame) -> [ResolvedFrame],
    _ reading: inout Reading
  ) -> (recording: Recording, logs: [SampleLog]) {
    let recording = file.recording
    if recording.stalls.isEmpty { Self.tellEmpty(name) }
    // Who is to blame is worked out where it is asked for.
    let builder =
      selection.signatures.isEmpty ? nil : ReportBuilder(recording, rules: rules, resolve: resolve)
    let origin = StallOrigin(recording)
    let wanted = recording.stalls.indices.filter { place in
      let stall = recording.stalls[place]
      reading.offer.add(stall, from: origin)
      guard selection.includes(stall, from: origin), Self.hasLabel(stall, selection, &reading.offer) else {
        return false
      }
      if let builder {
        let signature = builder.report(of: stall).signature
        reading.offer.add(signature: signature)
        guard selection.includes(signature: signature) else { return false }
      }
      reading.chosenCount += 1
      return reading.insert(stall, of: recording.process)
    }
    var chosen = recording
    chosen.stalls = wanted.map { recording.stalls[$0] }
    return (chosen, wanted.map { file.logs[$0] })
  }

  /// Whether `stall` has one of the wanted labels. What it has is among what is offered.
  private static func hasLabel(_ stall: Stall, _ selection: StallSelection, _ offer: inout StallOffer) -> Bool {
    guard !selection.labels.isEmpty else { return true }
    let labels = Set(stall.samples.lazy.map(\.label))
    offer.add(labels: labels)
    return selection.includes(labels: labels)
  }

  /// What is to be counted of the wanted stalls in `operands`: each stall once, the newest first.
  func counted(_ operands: [String]) throws -> (stalls: [CountedStall], reading: Reading) {
    var stalls: [CountedStall] = []
    let reading = forEach(
      try Expansion(operands),
      withThreads: false,
      { _, read in
        read.map { CountedStall($0.report) }
      },
      { stalls += $0 }
    )
    return (stalls.merged(), reading)
  }
}

import CCulpritLinux
import CulpritBlame
import CulpritCounting
import CulpritOptions
import CulpritReports
import CulpritStallRecord
import CulpritSymbols

/// Reads and symbolizes the stalls that match the options. Each thread opens each program file once.
struct Stalls: Sendable {
  static let namingOptions = [
    CommandOption(
      "debug-dir",
      argument: "DIR",
      values: .directory,
      isRepeatable: true,
      help: "also search DIR for executables and debug information"
    ),
    CommandOption(
      "own",
      argument: "NAME",
      isRepeatable: true,
      help:
        "treat NAME as application code: a module (ShopCore), package (swift-nio), library (libshop.so) or path (/srv/shop)"
    ),
    CommandOption(
      "wrapper",
      argument: "NAME",
      isRepeatable: true,
      help: "skip the application function NAME, such as Retry.run, and blame its caller"
    ),
  ]

  static let choosingOptions = [
    CommandOption(
      "since",
      argument: "TIME",
      help: "only stalls that began at or after TIME: 2026-11-20 (UTC), 2026-11-20T10:23:51Z, or an age: 30m, 2h, 7d"
    ),
    CommandOption("until", argument: "TIME", help: "only stalls that began before TIME: the same forms as for --since"),
    CommandOption(
      "source",
      argument: "NAME",
      isRepeatable: true,
      help: "only stalls of the source NAME: a name, such as http, or a kind of source, such as loop, queue or section"
    ),
    CommandOption(
      "service",
      argument: "NAME",
      isRepeatable: true,
      help: "only stalls of the service NAME: the name of its executable, such as shop; unknown: stalls without one"
    ),
    CommandOption(
      "host",
      argument: "NAME",
      isRepeatable: true,
      help: "only stalls of the host NAME: a host name, such as web-1; unknown: stalls without one"
    ),
    CommandOption(
      "build",
      argument: "DIGITS",
      isRepeatable: true,
      help: "only stalls of executables whose build-id begins with DIGITS, such as 93ac61; unknown: stalls without one"
    ),
    CommandOption(
      "label",
      argument: "TEXT",
      isRepeatable: true,
      help: "only stalls of work with the label TEXT, given in full: \"GET /orders\""
    ),
    CommandOption(
      "signature",
      argument: "DIGITS",
      isRepeatable: true,
      help: "only stalls whose signature begins with DIGITS, such as 52cc; culprit top lists the signatures"
    ),
  ]

  struct LoadedStall {
    var stall: Stall
    var report: StallReport
    var builder: ReportBuilder
    var log: SampleLog?
  }

  struct FileResult {
    var isWhole = true
    var fileCount = 0
    var available = AvailableValues()
    var chosenCount = 0
    private var exported: Set<[String]> = []

    init(isWhole: Bool = true) { self.isWhole = isWhole }

    /// Adds `stall` to the export. Returns `false` for a duplicate, for example from a copied directory.
    mutating func insert(_ stall: Stall, of process: ObservedProcess?) -> Bool {
      exported.insert([process?.host ?? "", stall.reportID(in: process)]).inserted
    }
  }

  private struct Naming: Sendable {
    var search: DebugSearch
    var own: [String]
    var wrappers: [String]

    func of(_ file: StallFile, _ shared: SharedFiles) -> (OwnershipRules, (StackFrame) -> [ResolvedFrame]) {
      let process = file.recording.process
      // Includes modules that the service declares as its own.
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

  let selection: StallSelection
  private let naming: Naming

  /// Creates a reader.
  ///
  /// - Throws: ``UsageError`` for an invalid option argument; ``InputError`` for an unusable directory.
  init(_ parsed: OptionTable.Arguments) throws {
    for (option, argument) in [("own", "NAME"), ("wrapper", "NAME"), ("label", "TEXT")]
    where parsed.values(option).contains("") {
      throw UsageError("--\(option) takes a \(argument), which must not be empty")
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

  /// Returns a signature's first digits in lower case, as in reports.
  private static func signature(_ text: String) throws(UsageError) -> String {
    guard !text.isEmpty, text.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
      throw UsageError("--signature takes the first digits of a signature, such as 1f3a, not \"\(text)\"")
    }
    guard text.count <= Signature.digitCount else {
      throw UsageError("--signature takes up to \(Signature.digitCount) digits, not the \(text.count) of \"\(text)\"")
    }
    return text.lowercased()
  }

  /// Returns a build ID's first digits in lower case.
  private static func build(_ text: String) throws(UsageError) -> String {
    guard text != StallSelection.unknown else { return text }
    guard !text.isEmpty, text.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
      throw UsageError("--build takes the first digits of a build-id, such as 1f3a, or unknown, not \"\(text)\"")
    }
    return text.lowercased()
  }

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

  /// Calls `make` for each of `files` on several threads, and `use` with the results in order. Prints problems to
  /// standard error.
  ///
  /// `withThreads` adds the other threads, which take most of the time for symbolization. Without `store`, stalls
  /// contain only the selection of samples for reports. `noteEmpty` gets the names of files without stalls.
  func forEach<Output>(
    _ files: Expansion,
    withThreads: Bool,
    store: (any OverflowStore)? = nil,
    noteEmpty: (_ name: String) -> Void = Self.noteEmpty,
    _ make: @escaping @Sendable (_ name: String, _ stalls: [LoadedStall]) -> Output,
    _ use: (Output) -> Void
  ) -> FileResult {
    var reading = FileResult(isWhole: files.isWhole)
    // An empty list of paths would mean standard input.
    guard files.isWhole || !files.paths.isEmpty else { return reading }
    let (selection, naming, found) = (selection, naming, files.found)
    let paths = files.paths.isEmpty ? ["-"] : files.paths
    Progress.shared.begin(reading: files.paths)
    OrderedWork.forEach(
      paths,
      // Inherited descriptors must be read in order, and servers get one request at a time.
      isAlone: paths.contains { isInherited($0) } || naming.search.servers != nil,
      { SharedFiles() },
      { shared, path in
        let samples = Stall.samplesForReport
        let extent = StallFile.Extent(samples: samples, logsSamples: store != nil, store: store)
        return readStallFile(path, isFound: found.contains(path), extent) { name, file in
          let recording = file.recording
          let (rules, resolve) = naming.of(file, shared)
          let builder = ReportBuilder(recording, rules: rules, resolve: resolve)
          var read: [LoadedStall] = []
          var available = AvailableValues()
          let origin = StallOrigin(recording)
          for (place, recorded) in recording.stalls.enumerated() {
            var stall = recorded
            available.add(stall, from: origin)
            guard selection.includes(stall, from: origin), Self.hasLabel(stall, selection, &available) else { continue }
            // A report of a pool needs the other threads if the pool's threads were not sampled individually.
            if !withThreads, stall.source.kind != .pool { stall.others = nil }
            let report = builder.report(of: stall)
            available.add(signature: report.signature)
            if selection.includes(signature: report.signature) {
              let log = store == nil ? nil : file.logs[place]
              read.append(LoadedStall(stall: stall, report: report, builder: builder, log: log))
            }
          }
          return (name: name, available: available, chosenCount: read.count, made: make(name, read))
        }
      },
      { result in
        if let output = result.output {
          reading.fileCount += 1
          reading.available.add(output.available)
          reading.chosenCount += output.chosenCount
          if output.available.count == 0 { noteEmpty(output.name) }
          use(output.made)
        }
        result.noteProblems()
        reading.isWhole = reading.isWhole && result.problems.isEmpty
      }
    )
    return reading
  }

  static func noteEmpty(_ name: String) { output.error("\(name): no stalls") }

  /// If no stall was selected, prints the values present in the files. `side` is the operand.
  func printAvailableValues(_ reading: FileResult, in side: String? = nil) {
    guard reading.available.count > 0, reading.chosenCount == 0 else { return }
    output.error((side.map { "\($0): " } ?? "") + reading.available.refusal(of: selection))
  }

  /// Calls `body` for each recording. Prints problems to standard error. Returns `true` without problems.
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

  /// Returns the extent for exports: all samples in `store`. Blame, signatures and labels also need a selection in
  /// memory.
  func extentForExports(_ store: any OverflowStore, includesBlame: Bool) -> StallFile.Extent {
    let needsSamples = includesBlame || !selection.signatures.isEmpty || !selection.labels.isEmpty
    return StallFile.Extent(samples: needsSamples ? Stall.samplesForReport : 1, logsSamples: true, store: store)
  }

  /// Returns the selected stalls of `file` with all samples. Omits stalls that `reading` contains, and updates its
  /// counts.
  func chosen(
    of file: StallFile,
    _ name: String,
    _ rules: OwnershipRules,
    _ resolve: @escaping (StackFrame) -> [ResolvedFrame],
    _ reading: inout FileResult
  ) -> (recording: Recording, logs: [SampleLog]) {
    let recording = file.recording
    if recording.stalls.isEmpty { Self.noteEmpty(name) }
    // Reports are computed only if signatures are needed.
    let builder =
      selection.signatures.isEmpty ? nil : ReportBuilder(recording, rules: rules, resolve: resolve)
    let origin = StallOrigin(recording)
    let wanted = recording.stalls.indices.filter { place in
      let stall = recording.stalls[place]
      reading.available.add(stall, from: origin)
      guard selection.includes(stall, from: origin), Self.hasLabel(stall, selection, &reading.available) else {
        return false
      }
      if let builder {
        let signature = builder.report(of: stall).signature
        reading.available.add(signature: signature)
        guard selection.includes(signature: signature) else { return false }
      }
      reading.chosenCount += 1
      return reading.insert(stall, of: recording.process)
    }
    var chosen = recording
    chosen.stalls = wanted.map { recording.stalls[$0] }
    return (chosen, wanted.map { file.logs[$0] })
  }

  /// Whether `stall` has a selected label. Adds the stall's labels to `available`.
  private static func hasLabel(_ stall: Stall, _ selection: StallSelection, _ available: inout AvailableValues) -> Bool
  {
    guard !selection.labels.isEmpty else { return true }
    let labels = Set(stall.samples.lazy.map(\.label))
    available.add(labels: labels)
    return selection.includes(labels: labels)
  }

  /// Returns each selected stall once, newest first.
  func counted(_ operands: [String]) throws -> (stalls: [CountedStall], reading: FileResult) {
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
